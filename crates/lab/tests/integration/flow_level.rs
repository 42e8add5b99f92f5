//! Scenarios at flow level.

use crate::common::{Ran, study, text};
use punctual_core::{
    Bytes, CriticalOrder, FlowModel, FlowWindow, HostId, NicInfo, PathUse, Rate, Sharing,
};
use punctual_lab::{Options, RunSetup, Study, execute};
use punctual_results::{Metric, RunKind};
use punctual_testkit::{markdown_table, print_figure};
use punctual_transports::{AnyTransport, TransportSettings};
use std::path::Path;
use std::sync::atomic::AtomicBool;

const FAT_TREE: &str = "[network]\ntopology = \"fat-tree\"\nk = 4\nrate = \"1Gbps\"\n\
    delay = \"25.1us\"\nmtu = \"1500B\"\n";

fn run(transports: &str, traffic: &str, level: &str) -> Vec<Ran> {
    text(&format!(
        "transports = [{transports}]\n{FAT_TREE}[[traffic]]\n{traffic}\n\
         [run]\nlevel = \"{level}\"\nduration = \"10s\"\nnetwork_trace = false\n"
    ))
}

/// A flow alone in the network takes the time of its packets: set-up, bytes and delays are theirs.
#[test]
fn a_lone_flow_takes_the_time_of_its_packets() {
    let transports = "\"pdq\", \"rcpdc\", \"rcp\", \"ndp\", \"d3\"";
    for size in ["1KB", "1440B", "100KB", "1MB"] {
        for pair in ["[0, 1]", "[0, 2]", "[0, 15]"] {
            let traffic = format!("pattern = \"pairs\"\npairs = [{pair}]\nsizes = \"{size}\"");
            let packet = run(transports, &traffic, "packet");
            let flow = run(transports, &traffic, "flow");
            for (packet, flow) in packet.iter().zip(&flow) {
                assert_eq!((packet.kind, flow.kind), (RunKind::Packets, RunKind::Flows));
                let ratio = flow.mean_fct_ms() / packet.mean_fct_ms();
                let name = packet.name();
                assert!((0.99..1.01).contains(&ratio), "{name}, {size}, {pair}: {ratio}");
            }
        }
    }
}

/// Both levels see the same flows.
#[test]
fn both_levels_have_the_same_flows() {
    let traffic = "pattern = \"random\"\narrivals = { poisson-load = 0.3 }\nstop = \"20ms\"\n\
                   sizes = \"web-search\"\ndeadlines = \"20ms\"";
    let (packet, flow) = (run("\"pdq\"", traffic, "packet"), run("\"pdq\"", traffic, "flow"));
    let specs = |ran: &Ran| ran.outcome.flows.iter().map(|f| f.spec).collect::<Vec<_>>();
    assert_eq!(specs(&packet[0]), specs(&flow[0]));
    for record in &flow[0].outcome.flows {
        assert!(record.delivered <= record.spec.size);
    }
}

/// Results at flow level are the same bytes on any number of threads.
#[test]
fn results_do_not_depend_on_threads() {
    let text = format!(
        "transports = [\"pdq\", \"d3\", \"dctcp\", \"d2tcp\", \"ndp\"]\n{FAT_TREE}[[traffic]]\n\
         pattern = \"permutation\"\nflows_each = 5\nsizes = {{ uniform = [\"2KB\", \"198KB\"] }}\n\
         deadlines = {{ exponential = {{ mean = \"20ms\", floor = \"3ms\" }} }}\n\
         [run]\nlevel = \"flow\"\nduration = \"10s\"\nrepetitions = 3\n"
    );
    let study = study(&text);
    let files = |threads: usize| {
        let out = std::env::temp_dir()
            .join(format!("punctual-flow-level-{}-{threads}", std::process::id()));
        let options = Options { out: out.clone(), threads, fresh: true, csv: false, sync: false };
        let reports =
            execute(&study, &study.runs(), &options, &(), &AtomicBool::new(false)).unwrap();
        let read = |dir: &Path| {
            ["flows.parquet", "summary.json"].map(|name| std::fs::read(dir.join(name)).unwrap())
        };
        let files: Vec<_> = reports.iter().map(|report| read(&report.dir)).collect();
        for report in &reports {
            let summary = &report.summary;
            assert_eq!(summary.kind, RunKind::Flows);
            assert!(summary[Metric::FctMean].value.is_some());
            for metric in [Metric::Drops, Metric::Trims, Metric::PacketHops, Metric::Retransmits] {
                assert_eq!(summary[metric].value, None, "{}", metric.name());
            }
        }
        std::fs::remove_dir_all(&out).unwrap();
        files
    };
    let one = files(1);
    assert!(one == files(4) && one == files(1));
}

#[test]
fn what_flow_level_cannot_model_is_refused_by_its_key() {
    let error = |transport: &str, traffic: &str, more: &str| {
        let text = format!(
            "transports = [\"{transport}\"]\n{FAT_TREE}{more}[[traffic]]\n{traffic}\n\
             [run]\nlevel = \"flow\"\nduration = \"1s\"\n"
        );
        Study::from_text("test", &text, Path::new("."), &[]).expect_err(&text).to_string()
    };
    let plain = "pattern = \"permutation\"\nsizes = \"10KB\"";
    let message = error("udp", plain, "");
    assert!(message.contains("`udp` has no flow-level model"), "{message}");
    assert!(message.contains("transports that have one: tcp, dctcp, d2tcp, d3"), "{message}");
    let closed = format!("{plain}\narrivals = {{ closed-loop = {{ connections = 1 }} }}");
    for (traffic, more, key) in [
        (&*closed, "", "arrivals"),
        (&*format!("{plain}\nclass = 0"), "", "class"),
        (
            &*format!(
                "{plain}\ndeadlines = \"1ms\"\n\
                 deadline_change = {{ after = \"1us\", deadline = \"5ms\" }}"
            ),
            "",
            "deadline_change",
        ),
        (plain, "[[link]]\ntier = \"pod-up\"\nindex = 0\nloss = 0.1\n", "link"),
    ] {
        let message = error("pdq", traffic, more);
        assert!(message.contains("flow level does not model"), "{message}");
        assert!(message.contains(key), "{key}: {message}");
    }
    let mixed = format!("{plain}\n[[traffic]]\n{plain}\ntransport = \"rcp\"");
    assert!(error("pdq", &mixed, "").contains("several transports"));
}

/// Overload, flows between one pair, and tiny flows end.
#[test]
fn overload_ends() {
    for transport in ["pdq", "d3", "rcp", "d2tcp", "ndp"] {
        let traffic = "pattern = \"pairs\"\npairs = [[0, 1], [0, 1], [2, 1], [3, 1], [4, 1]]\n\
                       flows_each = 20\nsizes = { uniform = [\"1B\", \"1MB\"] }\n\
                       deadlines = { exponential = { mean = \"3ms\", floor = \"10us\" } }";
        let ran = run(&format!("\"{transport}\""), traffic, "flow");
        let ended = ran[0].outcome.flows.iter().filter(|f| f.ended.is_some()).count();
        assert_eq!(ended, ran[0].outcome.flows.len(), "{transport}");
    }
}

/// BCube with two NICs per host and Jellyfish: several flows between one pair, and flows of one
/// byte, end for every transport. The longest has at least the time of its bytes on the NICs that
/// its transport uses.
#[test]
fn flows_between_one_pair_end_on_bcube_and_jellyfish() {
    let jellyfish =
        "topology = \"jellyfish\"\nswitches = 6\nports = 5\nhosts_per_switch = 2\npaths = 2";
    for (topology, nics) in [("topology = \"bcube\"\nn = 2\nk = 1", 2.0), (jellyfish, 1.0)] {
        for transport in ["pdq", "m-pdq", "d3", "rcp", "rcpdc", "tcp", "d2tcp", "ndp"] {
            let ran = text(&format!(
                "transports = [\"{transport}\"]\n[network]\n{topology}\nrate = \"1Gbps\"\n\
                 delay = \"1us\"\n[[traffic]]\npattern = \"pairs\"\npairs = [[0, 3], [0, 3]]\n\
                 flows_each = 5\nsizes = \"100KB\"\n[[traffic]]\npattern = \"pairs\"\n\
                 pairs = [[0, 3], [3, 0], [1, 2]]\nsizes = \"1B\"\n\
                 [run]\nlevel = \"flow\"\nduration = \"1s\"\n"
            ));
            let fcts = ran[0].fcts_ms();
            assert_eq!(fcts.len(), 13, "{transport}");
            let longest = fcts.iter().copied().fold(0.0, f64::max);
            // 1 MB at 1 Gb/s on each NIC: 8 ms.
            assert!((8.0 / nics..100.0).contains(&longest), "{transport}: {longest} ms");
        }
    }
}

/// NDP sprays over all paths of BCube, so that most packets cross six links instead of two to four:
/// with all hosts sending, flow level is as slow as packet level says, to a fifth.
#[test]
fn spraying_over_long_paths_costs_capacity() {
    let both = ["packet", "flow"].map(|level| {
        text(&format!(
            "transports = [\"ndp\"]\n[network]\ntopology = \"bcube\"\nn = 4\nk = 1\n\
             rate = \"1Gbps\"\ndelay = \"1us\"\n[[traffic]]\npattern = \"permutation\"\n\
             flows_each = 5\nsizes = \"1MB\"\n[run]\nlevel = \"{level}\"\nduration = \"10s\"\n\
             repetitions = 3\nnetwork_trace = false\n"
        ))
        .iter()
        .map(Ran::mean_fct_ms)
        .sum::<f64>()
    });
    let ratio = both[1] / both[0];
    assert!((0.8..1.2).contains(&ratio), "{ratio}");
}

fn words(sharing: &Sharing) -> String {
    match sharing {
        Sharing::Fair => "max-min".to_owned(),
        Sharing::Weighted { .. } => "max-min, weights α^−d".to_owned(),
        Sharing::Reserved { .. } => "first come first served requests, then max-min".to_owned(),
        Sharing::Critical { order, .. } => match order {
            CriticalOrder::Deadline => "greedy: deadline, then shortest".to_owned(),
            _ => "greedy".to_owned(),
        },
    }
}

/// The table of all models, with the defaults of each transport.
#[test]
fn the_table_of_models() {
    let nic = NicInfo {
        host: HostId(0),
        rate: Rate::from_gbps(10),
        mtu: Bytes::new(1500),
        framing: Bytes::new(38),
        nics: 1,
    };
    let mut rows = Vec::new();
    for info in AnyTransport::catalogue() {
        let transport = AnyTransport::by_name(info.name, &TransportSettings::default()).unwrap();
        let Some(model) = punctual_core::TransportSet::flow_model(&transport, &nic) else {
            continue;
        };
        let FlowModel { sharing, paths, setup_rtts, setup_rtts_without_deadline, .. } = model;
        assert_eq!(model.payload.get() % 2, 0, "{}", info.name);
        let setup = match setup_rtts == setup_rtts_without_deadline {
            true => format!("{setup_rtts}"),
            false => format!("{setup_rtts}, without deadline {setup_rtts_without_deadline}"),
        };
        let packet = model.payload.get() + model.header.get() + nic.framing.get();
        let window = match model.window {
            FlowWindow::Unlimited => "-".to_owned(),
            FlowWindow::Fixed(window) => format!("{} packets", window.get() / packet),
            FlowWindow::Doubling(window) => {
                format!("{} packets, doubling", window.get() / packet)
            }
        };
        rows.push(vec![
            info.name.to_owned(),
            words(&sharing),
            match paths {
                PathUse::Hashed => "one, by hash".to_owned(),
                PathUse::Sprayed => "all".to_owned(),
                PathUse::Subflows(count) => format!("{count} subflows"),
            },
            setup,
            format!("{}", model.resume_rtts),
            window,
            format!("{} + {}", model.payload.get(), model.header.get()),
            format!("{}", model.answers),
        ]);
    }
    assert!(rows.len() >= 8);
    let head = [
        "transport",
        "rates",
        "paths",
        "set-up (RTT)",
        "resuming (RTT)",
        "window per RTT",
        "payload + header (B)",
        "answers per packet",
    ];
    print_figure("flow-level-models", &markdown_table(&head, &rows));
}

/// A set-up at flow level is one of flows.
#[test]
fn the_setup_has_no_packets() {
    let study = study(&format!(
        "transports = [\"pdq\"]\n{FAT_TREE}[[traffic]]\npattern = \"permutation\"\n\
         sizes = \"1KB\"\n[run]\nlevel = \"flow\"\nduration = \"1s\"\n"
    ));
    let run = &study.runs()[0];
    let setup = study.setup(&run.scenario, &run.subject, run.seed).unwrap();
    assert!(matches!(setup, RunSetup::Flows(_)));
    assert!(setup.packets().is_none());
}
