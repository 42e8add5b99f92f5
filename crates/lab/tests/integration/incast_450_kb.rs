//! NDP's Figure 16 (`scenarios/ndp-figure-16.toml`).

use crate::common::shipped;
use punctual_testkit::{assert_figure, claimed};

/// The last flow of each transport is held to the claim that the catalogue makes about it: over the
/// time that the link needs, or for DCTCP over PFC in milliseconds.
#[test]
fn the_last_of_an_incast_ends_as_in_the_figure() {
    for ran in shipped("ndp-figure-16", &[]) {
        let ends = ran.ends_ms();
        let last = ends.iter().copied().fold(0.0, f64::max);
        // 50 packets of 9,064 B from each.
        let needed = ends.len() as f64 * 50.0 * 9064.0 * 8.0 / 1e7;
        let (name, senders) = (ran.name(), ran.point());
        println!("{name}, {senders} senders: {last:.1} ms, {:.4} of {needed:.1}", last / needed);
        let (claim, measured) = match name {
            "dctcp-lossless" => ("lossless-last", last),
            "ndp" => ("ndp-last", last / needed),
            "dctcp" => ("dctcp-last", last / needed),
            "mptcp" => ("mptcp-last", last / needed),
            other => panic!("the catalogue has no claim about {other}"),
        };
        let id = format!("ndp-fig-16-scenario-{name}-{senders}");
        assert_figure(&id, measured, claimed("ndp/fig16", &format!("{claim}-{senders}")));
    }
}
