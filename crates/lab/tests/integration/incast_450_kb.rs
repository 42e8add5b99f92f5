//! NDP's Figure 16 (`scenarios/ndp-figure-16.toml`).

use crate::common::shipped;

/// NDP and DCTCP over PFC end when the line must, DCTCP 2 to 8 % later, and MPTCP long after.
#[test]
fn the_last_of_an_incast_ends_as_in_the_figure() {
    for ran in shipped("ndp-figure-16", &[]) {
        let ends = ran.ends_ms();
        let last = ends.iter().copied().fold(0.0, f64::max);
        // 50 packets of 9,064 B from each.
        let needed = ends.len() as f64 * 50.0 * 9064.0 * 8.0 / 1e7;
        let over = (last / needed - 1.0) * 100.0;
        let (name, senders) = (ran.name(), ran.point());
        println!("{name}, {senders} senders: {last:.1} ms, {over:+.1} %");
        let within = match name {
            "ndp" | "dctcp-lossless" => -0.5..1.0,
            "dctcp" => 2.0..8.0,
            _ => 4.0..150.0,
        };
        assert!(within.contains(&over), "{name}, {senders} senders: {over:+.1} %");
    }
}
