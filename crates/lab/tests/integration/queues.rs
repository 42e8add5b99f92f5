//! Queues for all transports and for one: what a run really has.

use punctual_core::{Bytes, Limit, QueueSpec};
use punctual_lab::{CapacitySearch, Question, Study};
use std::path::Path;

const NETWORK: &str = r#"
[network]
topology = "star"
hosts = 9
rate = "10Gbps"
delay = "1us"
[run]
duration = "20ms"
[[traffic]]
pattern = "incast"
receiver = 0
sizes = "500KB"
"#;

fn study(top: &str, rest: &str, changes: &[&str]) -> Study {
    let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
    let text = format!("{top}\n{NETWORK}\n{rest}");
    Study::from_text("test", &text, Path::new("."), &changes).unwrap_or_else(|e| panic!("{e}"))
}

/// The queue of each run of a study, by transport.
fn queues(study: &Study) -> Vec<(String, QueueSpec)> {
    let queue = |run: punctual_lab::PlannedRun| {
        let setup = study.setup(&run.scenario, &run.subject, run.seed).unwrap();
        (run.subject.label, setup.packets().expect("packets").switch_queue)
    };
    study.runs().into_iter().map(queue).collect()
}

fn queue_of(top: &str, rest: &str, changes: &[&str], transport: &str) -> QueueSpec {
    let queues = queues(&study(top, rest, changes));
    queues.into_iter().find(|(name, _)| name == transport).expect("it is run").1
}

fn ecn(limit: u32, mark_above: u32) -> QueueSpec {
    QueueSpec::Ecn { limit: Limit::Packets(limit), mark_above: Limit::Packets(mark_above) }
}

fn drop_tail(limit: u32) -> QueueSpec {
    QueueSpec::DropTail { limit: Limit::Packets(limit) }
}

const THREE: &str = "transports = ['ndp', 'dctcp', 'mptcp']";

#[test]
fn what_is_written_is_laid_over_what_the_transport_suggests() {
    let plain = queues(&study(THREE, "", &[]));
    let QueueSpec::Ecn { limit, mark_above } = plain[1].1 else { panic!("{plain:?}") };
    let marks = "[queue.dctcp]\nmark_above = '15packets'";
    let with = queues(&study(THREE, marks, &[]));
    assert_ne!(mark_above, Limit::Packets(15));
    assert_eq!(with[1].1, QueueSpec::Ecn { limit, mark_above: Limit::Packets(15) });
    // The queues of all other transports are unchanged.
    assert_eq!((&with[0], &with[2]), (&plain[0], &plain[2]));
    // From the command line, with and without a table in the file.
    let set = ["queue.dctcp.mark_above=7packets", "queue.mptcp.limit=90packets"];
    for rest in [marks, ""] {
        let set = queues(&study(THREE, rest, &set));
        assert_eq!(set[1].1, QueueSpec::Ecn { limit, mark_above: Limit::Packets(7) });
        assert_eq!(set[2].1, drop_tail(90));
    }
}

#[test]
fn it_is_laid_over_the_queue_of_all_where_there_is_one() {
    let all = "[queue]\nkind = 'ecn'\nlimit = '80packets'\nmark_above = '9packets'\n";
    let own = format!(
        "{all}[queue.dctcp]\nmark_above = '15packets'\n[queue.ndp]\nkind = 'drop-tail'\nlimit = '8packets'"
    );
    let queues = queues(&study(THREE, &own, &[]));
    assert_eq!(queues[0].1, drop_tail(8), "a kind makes it a queue of its own");
    assert_eq!(queues[1].1, ecn(80, 15));
    assert_eq!(queues[2].1, ecn(80, 9));
}

/// A lossless queue marks above a limit or at random: one key replaces the other.
#[test]
fn one_way_of_marking_replaces_the_other() {
    let top = "transports = ['dcqcn', 'dctcp-lossless']";
    let set = ["queue.dcqcn.mark_above=20packets"];
    let QueueSpec::Lossless { mark_above, red, pause_above, .. } = queue_of(top, "", &set, "dcqcn")
    else {
        panic!("it is lossless")
    };
    assert_eq!((mark_above, red), (Some(Limit::Packets(20)), None));
    assert_eq!(pause_above, Bytes::new(400_000), "the rest is what DCQCN suggests");
    // In a table, only the written keys change.
    let rest = "[queue.dcqcn.red]\nto = '100KB'";
    let QueueSpec::Lossless { mark_above, red: Some(red), .. } = queue_of(top, rest, &[], "dcqcn")
    else {
        panic!("it marks at random")
    };
    assert_eq!(mark_above, None);
    assert_eq!((red.from, red.to, red.most_percent), (Bytes::new(5000), Bytes::new(100_000), 1));
}

#[test]
fn a_sweep_may_try_limits_of_one_transport() {
    let rest = "[sweep]\nqueue.dctcp.mark_above = ['5packets', '50packets']";
    let queues = queues(&study("transports = ['dctcp', 'mptcp']", rest, &[]));
    let marks: Vec<_> = queues.iter().filter(|(name, _)| name == "dctcp").collect();
    assert_eq!(marks.len(), 2);
    for ((_, queue), packets) in marks.iter().zip([5, 50]) {
        let QueueSpec::Ecn { mark_above, .. } = queue else { panic!("{queue:?}") };
        assert_eq!(*mark_above, Limit::Packets(packets));
    }
    let others: Vec<_> = queues.iter().filter(|(name, _)| name == "mptcp").collect();
    assert_eq!(others[0].1, others[1].1);
}

#[test]
fn a_search_for_a_capacity_may_vary_it() {
    let study = study(THREE, "[queue.dctcp]\nmark_above = '15packets'", &[]);
    let question = Question {
        vary: "queue.dctcp.mark_above".into(),
        until: "fct_p99_us < 1s".into(),
        ..Question::default()
    };
    let mut search = CapacitySearch::new(&study, &question).unwrap_or_else(|e| panic!("{e}"));
    let runs = search.next_runs().unwrap();
    assert!(!runs.is_empty() && runs.iter().any(|run| run.subject.label == "dctcp"));
}

/// Transports that share a network use the queue that one of them has of its own.
#[test]
fn transports_that_share_a_network_share_a_queue() {
    let beside =
        "[[traffic]]\npattern = 'pairs'\npairs = [[1, 2]]\nsizes = '1MB'\ntransport = 'tcp'\n";
    let own =
        format!("{beside}[queue.dctcp]\nmark_above = '15packets'\n[queue.ndp]\ndata = '9packets'");
    let queues = queues(&study("transports = ['ndp', 'dctcp']", &own, &[]));
    assert!(matches!(queues[0].1, QueueSpec::Trim { data: Limit::Packets(9), .. }), "{queues:?}");
    assert!(matches!(queues[1].1, QueueSpec::Ecn { mark_above: Limit::Packets(15), .. }));
    // Two equal queues do not conflict.
    let same = ["tcp", "ndp", "dctcp"]
        .map(|name| format!("[queue.{name}]\nkind = 'drop-tail'\nlimit = '50packets'\n"));
    let own = format!("{beside}{}", same.concat());
    let queues = self::queues(&study("transports = ['ndp', 'dctcp']", &own, &[]));
    assert!(queues.iter().all(|(_, queue)| *queue == drop_tail(50)), "{queues:?}");
}

/// A queue for a transport that the command line removes is no mistake. One for a transport that is
/// not in the file is a mistake, also if the command line adds the queue.
#[test]
fn leaving_transports_out_keeps_their_queues() {
    let rest = "[queue.dctcp]\nmark_above = '15packets'";
    let left = queues(&study(THREE, rest, &["transports=['mptcp']"]));
    assert_eq!(left.len(), 1);
    let swept = study(THREE, &format!("{rest}\n[sweep]\ntransports = [['ndp'], ['dctcp']]"), &[]);
    assert_eq!(queues(&swept).len(), 2);
    let text = format!("transports = ['ndp']\n{NETWORK}");
    let change = "queue.dctcp.mark_above=15packets".to_owned();
    let refused = Study::from_text("test", &text, Path::new("."), &[change]).unwrap_err();
    assert!(refused.to_string().contains("carries no traffic"), "{refused}");
}

/// The simulated queue has the given limit: the packets of eight senders fit into 4,000 packets,
/// but not into 10.
#[test]
fn the_run_has_it() {
    let drops = |rest: &str| -> Vec<u64> {
        let text = format!("transports = ['tcp', 'dctcp']\n{NETWORK}\n{rest}");
        crate::common::text(&text).iter().map(|ran| ran.outcome.totals.drops).collect()
    };
    let [tcp, dctcp] = drops("")[..] else { panic!("two runs") };
    assert!(tcp > 0 && dctcp == 0, "{tcp}, {dctcp}");
    assert_eq!(drops("[queue.tcp]\nlimit = '4000packets'"), [0, 0]);
    let short = drops("[queue.dctcp]\nlimit = '10packets'");
    assert!(short[0] == tcp && short[1] > 0, "{short:?}");
}

/// DCTCP marks above 20 packets at 1 Gb/s and 65 at 10 Gb/s: each port by its own rate.
#[test]
fn ports_have_the_queue_of_their_own_rate() {
    let text = r#"
transports = ["dctcp"]
[network]
topology = "bottleneck"
senders = 2
rate = "10Gbps"
bottleneck_rate = "1Gbps"
delay = "10us"
[run]
duration = "20ms"
[[traffic]]
pattern = "pairs"
pairs = [[0, 2]]
sizes = "500KB"
"#;
    let marks = |text: &str| {
        let study = Study::from_text("test", text, Path::new("."), &[]).unwrap();
        let run = study.runs().remove(0);
        let setup = study.setup(&run.scenario, &run.subject, run.seed).unwrap();
        let setup = setup.packets().expect("packets");
        let network = &setup.network;
        let ports = network.links.iter().zip(&setup.port_queues);
        let of_switches = ports.filter(|(link, _)| link.from.0 >= network.hosts);
        let mut marks: Vec<(u64, Limit, Limit)> = of_switches
            .map(|(link, queue)| match queue {
                QueueSpec::Ecn { limit, mark_above } => (link.rate.as_bps(), *mark_above, *limit),
                other => panic!("{other:?}"),
            })
            .collect();
        marks.sort_by_key(|(rate, ..)| *rate);
        marks.dedup();
        marks
    };
    let packets = |n| Limit::Packets(n);
    let plain = marks(text);
    let at: Vec<(u64, Limit)> = plain.iter().map(|(rate, mark, _)| (*rate, *mark)).collect();
    assert_eq!(at, [(1_000_000_000, packets(20)), (10_000_000_000, packets(65))]);
    // Keys that are not written keep the default of each rate.
    let shorter = marks(&format!("{text}\n[queue.dctcp]\nlimit = '90packets'"));
    let at: Vec<(Limit, Limit)> = shorter.iter().map(|(_, mark, limit)| (*mark, *limit)).collect();
    assert_eq!(at, [(packets(20), packets(90)), (packets(65), packets(90))]);
}
