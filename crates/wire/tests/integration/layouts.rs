//! The tables of docs/wire.md and the fields of the Wireshark dissector are those of the code.

use punctual_testkit::print_figure;
use punctual_wire::{
    CODECS, D3_LAYOUT, DEFAULT_PORT, ENVELOPE_LAYOUT, FieldLayout, GENERIC_LAYOUT, Kind,
    NDP_LAYOUT, PDQ_LAYOUT, VERSION_ANSWER_LAYOUT,
};

fn read(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::fs::read_to_string(format!("{root}/{path}")).unwrap()
}

/// A table of a header: where each field is and what it means.
fn table(layout: &[FieldLayout]) -> String {
    let mut text = String::from("| byte | bits | field | meaning |\n|---|---|---|---|\n");
    for field in layout {
        let FieldLayout { name, at, bytes, mask, meaning } = *field;
        let place = match bytes {
            1 => at.to_string(),
            _ => format!("{at}–{}", at + bytes - 1),
        };
        let bits = match (mask, mask.count_ones()) {
            (0, _) => (bytes * 8).to_string(),
            (_, 1) => format!("bit {}", mask.trailing_zeros()),
            _ => format!("bits {}–{}", mask.trailing_zeros(), mask.ilog2()),
        };
        text += &format!("| {place} | {bits} | `{name}` | {meaning} |\n");
    }
    text
}

fn assert_shown(table: &str) {
    let page = read("docs/wire.md");
    assert!(
        page.contains(table.trim_end()),
        "docs/wire.md lacks this table; write it with `cargo xtask figures wire`:\n{table}"
    );
}

#[test]
fn docs__envelope() {
    let table = table(ENVELOPE_LAYOUT);
    print_figure("wire-envelope", &table);
    assert_shown(&table);
}

#[test]
fn docs__version_answer() {
    let table = table(VERSION_ANSWER_LAYOUT);
    print_figure("wire-version-answer", &table);
    assert_shown(&table);
}

#[test]
fn docs__ndp() {
    let table = table(NDP_LAYOUT);
    print_figure("wire-ndp", &table);
    assert_shown(&table);
}

#[test]
fn docs__d3() {
    let table = table(D3_LAYOUT);
    print_figure("wire-d3", &table);
    assert_shown(&table);
}

#[test]
fn docs__pdq() {
    let table = table(PDQ_LAYOUT);
    print_figure("wire-pdq", &table);
    assert_shown(&table);
}

#[test]
fn docs__generic() {
    let table = table(GENERIC_LAYOUT);
    print_figure("wire-generic", &table);
    assert_shown(&table);
}

#[test]
fn docs__transports_and_kinds() {
    let mut table = String::from("| transport | number | bytes of fields |\n|---|--:|--:|\n");
    for (name, number, layout) in CODECS {
        let end = layout.iter().map(|f| f.at + f.bytes).max().unwrap();
        let plain = if layout == &D3_LAYOUT { "16 or " } else { "" };
        table += &format!("| `{name}` | {number} | {plain}{end} |\n");
    }
    print_figure("wire-transports", &table);
    assert_shown(&table);
    let kinds: Vec<String> =
        Kind::NAMED.iter().map(|(kind, name)| format!("{} {name}", kind.number())).collect();
    assert!(read("docs/wire.md").contains(&kinds.join(", ")), "{kinds:?}");
    let lua = read("tools/wireshark/punctual.lua");
    assert!(lua.contains(&format!("DEFAULT_PORT = {DEFAULT_PORT}")));
    for (kind, name) in Kind::NAMED {
        assert!(lua.contains(&format!("[{}] = \"{name}\"", kind.number())), "{name}");
    }
    for (name, number, _) in CODECS.iter().filter(|codec| codec.0 != "generic") {
        assert!(lua.contains(&format!("[{number}] = \"{name}\"")), "{name}");
    }
}

/// A field of the dissector: its name, first byte, bytes and mask.
fn lua_fields(text: &str) -> Vec<(String, usize, usize, u32)> {
    let mut fields = Vec::new();
    for line in text.lines() {
        let Some(line) = line.strip_prefix("  { \"") else { continue };
        let parts: Vec<&str> = line.trim_end_matches(" },").split(", ").collect();
        let mask = parts.get(6).and_then(|m| u32::from_str_radix(m.strip_prefix("0x")?, 16).ok());
        let number = |at: usize| parts[at].parse::<usize>().unwrap();
        let name = parts[0].trim_end_matches('"').to_owned();
        fields.push((name, number(2), number(3), mask.unwrap_or(0)));
    }
    fields
}

#[test]
fn dissector__has_every_field_at_its_place() {
    let mut expected = Vec::new();
    let groups = [
        ("", ENVELOPE_LAYOUT),
        ("version_answer.", VERSION_ANSWER_LAYOUT),
        ("ndp.", NDP_LAYOUT),
        ("d3.", D3_LAYOUT),
        ("pdq.", PDQ_LAYOUT),
        ("generic.", GENERIC_LAYOUT),
    ];
    for (group, layout) in groups {
        for field in layout {
            expected.push((format!("{group}{}", field.name), field.at, field.bytes, field.mask));
        }
    }
    // The dissector also names what no table of layouts has: reserved bits of transports' headers,
    // the packet number of keyed packets, and what precedes a message's data.
    let is_of_layouts = |name: &str| {
        let reserved = ["ndp.reserved", "d3.reserved_flags", "pdq.reserved_flags", "pdq.reserved"];
        let begins = ["opening.", "prologue."].iter().any(|group| name.starts_with(group));
        !(begins || reserved.contains(&name) || name == "number")
    };
    let mut named = lua_fields(&read("tools/wireshark/punctual.lua"));
    named.retain(|field| is_of_layouts(&field.0));
    assert_eq!(named, expected);
}
