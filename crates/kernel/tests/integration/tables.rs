//! The tables of the BPF program are those of the simulator.

use punctual_transports::tcp::power_tables;
use std::fmt::Write as _;

/// `bpf/tables.h`, from the simulator's tables.
fn tables_header() -> String {
    let mut text = String::from(
        "/* SPDX-License-Identifier: MIT OR GPL-2.0-only */\n\
         /* Generated from crates/transports/src/tcp/penalty.rs by the test `tables_header`. */\n\
         #pragma once\n",
    );
    for (name, table) in ["log2_table", "exp2_table"].iter().zip(power_tables()) {
        let _ = writeln!(text, "static const volatile __u32 {name}[257] = {{");
        for row in table.chunks(8) {
            let row: Vec<String> = row.iter().map(u32::to_string).collect();
            let _ = writeln!(text, "\t{},", row.join(", "));
        }
        text.push_str("};\n");
    }
    text
}

#[test]
fn tables_header__is_that_of_the_simulator() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/tables.h");
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        std::fs::write(path, tables_header()).expect("tables.h");
    }
    let present = std::fs::read_to_string(path).expect("tables.h");
    assert!(present == tables_header(), "run this test with PUNCTUAL_BLESS=1, and bpf/build.sh");
}
