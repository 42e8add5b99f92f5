//! Network playback: the activity of every port, frame by frame.

use super::layout::{self, Graph};
use super::model::{Body, Section};
use punctual_core::{Duration, Instant, Rate};
use punctual_record::{Activity, NetworkTrace};
use punctual_results::PortRow;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of frames times ports of all runs of a page; six bytes each, and more with
/// rare events.
const CELLS: usize = 150_000;
/// The minimum number of frames worth showing.
const FEWEST_FRAMES: usize = 25;

/// What is shown of a network.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct NetworkBody {
    #[serde(flatten)]
    graph: Graph,
    runs: Vec<RunBody>,
}

/// One run.
///
/// Dense numbers have two digits of base 64 per frame. Sparse numbers are lists of frame and value.
#[derive(Debug, Clone, Default, Serialize)]
struct RunBody {
    transport: usize,
    frame_us: f64,
    end_us: f64,
    frames: usize,
    /// The greatest queue of all, in bytes and packets.
    most_bytes: u64,
    most_packets: u32,
    /// By port: the share of the time that it was sending, in 4000ths.
    used: Vec<String>,
    /// By port: bytes in 4095ths of the greatest queue.
    bytes: Vec<String>,
    /// By port: packets, in 4095ths of the greatest queue where that is longer.
    packets: Vec<String>,
    /// By what happened: for each port its number, then frames and values.
    events: BTreeMap<&'static str, Vec<Vec<u64>>>,
}

/// Sparse numbers; times and rates in thousandths of the frame and of the link rate.
type Event = (&'static str, fn(&Activity, &Scale) -> u64);

struct Scale {
    frame: Duration,
    rate: Rate,
}

const EVENTS: [Event; 9] = [
    ("drops", |did, _| u64::from(did.drops)),
    ("losses", |did, _| u64::from(did.losses)),
    ("trims", |did, _| u64::from(did.trims)),
    ("bounces", |did, _| u64::from(did.bounces)),
    ("marks", |did, _| u64::from(did.marks)),
    ("pauses", |did, _| u64::from(did.pauses)),
    ("paused", |did, of| share(did.paused.as_picos(), of.frame.as_picos(), 1000)),
    ("grants", |did, _| u64::from(did.grants)),
    ("granted", |did, of| share(did.granted.as_bps(), of.rate.as_bps(), 1000)),
];

/// The share `part / whole` in units of `1 / of`, rounded down, but at least 1 if `part` is not 0.
fn share(part: u64, whole: u64, of: u64) -> u64 {
    let share = u128::from(part) * u128::from(of) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX).max(u64::from(part > 0))
}

/// The ports of a run of a transport, and their activity if recorded.
pub(crate) struct Traced {
    /// By number.
    pub(crate) transport: usize,
    pub(crate) ports: Vec<PortRow>,
    pub(crate) trace: Option<NetworkTrace>,
}

/// The playback of a point of the sweep, or why there is none.
///
/// `runs_of_page` counts the runs of all points.
pub(crate) fn section(runs: &[Traced], runs_of_page: usize) -> Option<Section> {
    let ports = &runs.iter().find(|run| !run.ports.is_empty())?.ports;
    let nics = ports.iter().filter(|port| port.tier == "host-up");
    let hosts = nics.map(|port| &port.from).collect::<BTreeSet<_>>().len();
    let section = |lead: String, body: NetworkBody| Section {
        id: "network".to_owned(),
        title: "Network playback".to_owned(),
        lead,
        point: None,
        body: Body::Network(Box::new(body)),
    };
    let mut recorded: Vec<(usize, NetworkTrace)> = runs
        .iter()
        .filter(|run| run.ports.len() == ports.len())
        .filter_map(|run| Some((run.transport, run.trace.clone()?)))
        .collect();
    if recorded.is_empty() {
        let lead = format!(
            "Not drawn: the activity of the {hosts} hosts and their switches was not recorded. \
             Networks of up to 64 hosts are recorded unless the scenario disables it; networks of \
             up to 256 hosts are with --set run.network_trace=true."
        );
        return Some(section(lead, NetworkBody::default()));
    }
    let most = CELLS / runs_of_page.max(1) / ports.len().max(1);
    if most < FEWEST_FRAMES {
        let lead = "Not drawn, to limit the size of the page: see the report of this point's \
                    directory, or of a single run.";
        return Some(section(lead.to_owned(), NetworkBody::default()));
    }
    for (_, trace) in &mut recorded {
        while trace.frames() as usize > most {
            halve(trace);
        }
    }
    let runs = recorded.iter().map(|(transport, trace)| run(*transport, trace, ports)).collect();
    let lead = "Every link and queue in the first run of each transport. A link has one line per \
                direction; its colour is the share of time that it was sending. A bar at the start \
                of a link is the longest queue of its port in the frame. The strip above a network \
                shows the whole run: click there, or press play."
        .to_owned();
    Some(section(lead, NetworkBody { graph: layout::graph(ports), runs }))
}

/// Merges pairs of frames.
fn halve(trace: &mut NetworkTrace) {
    let mut joined: BTreeMap<(u32, u32), Activity> = BTreeMap::new();
    for cell in &trace.cells {
        joined.entry((cell.frame / 2, cell.port.0)).or_default().join(&cell.did);
    }
    trace.frame = trace.frame + trace.frame;
    trace.cells = joined
        .into_iter()
        .map(|((frame, port), did)| punctual_record::PortFrame {
            frame,
            port: punctual_core::PortId(port),
            did,
        })
        .collect();
}

fn run(transport: usize, trace: &NetworkTrace, ports: &[PortRow]) -> RunBody {
    let frames = trace.frames() as usize;
    let most = |get: fn(&Activity) -> u64| trace.cells.iter().map(|c| get(&c.did)).max();
    let most_bytes = most(|did| did.queue_bytes).unwrap_or(0);
    let most_packets = most(|did| u64::from(did.queue_packets)).unwrap_or(0);
    let mut by_port: Vec<Vec<(usize, &Activity)>> = vec![Vec::new(); ports.len()];
    for cell in &trace.cells {
        let (port, frame) = (cell.port.index(), cell.frame as usize);
        if let Some(own) = by_port.get_mut(port).filter(|_| frame < frames) {
            own.push((frame, &cell.did));
        }
    }
    let dense = |get: &dyn Fn(usize, &Activity) -> u64| -> Vec<String> {
        by_port.iter().map(|own| digits(own.iter().map(|(f, did)| (*f, get(*f, did))))).collect()
    };
    let long = |frame: usize| {
        let (from, until) = trace.span(frame as u32);
        until - from
    };
    let packets_scale = most_packets.max(4095);
    let mut events = BTreeMap::new();
    for (name, get) in EVENTS {
        let mut lists = Vec::new();
        for (port, own) in by_port.iter().enumerate() {
            let mut list = vec![port as u64];
            for (frame, did) in own {
                let scale = Scale { frame: long(*frame), rate: ports[port].rate };
                let value = get(did, &scale);
                if value > 0 {
                    list.extend([*frame as u64, value]);
                }
            }
            if list.len() > 1 {
                lists.push(list);
            }
        }
        if !lists.is_empty() {
            events.insert(name, lists);
        }
    }
    RunBody {
        transport,
        frame_us: trace.frame.as_micros_f64(),
        end_us: trace.ended_at.saturating_since(Instant::ZERO).as_micros_f64(),
        frames,
        most_bytes,
        most_packets: most_packets as u32,
        used: dense(&|f, did| share(did.busy.as_picos(), long(f).as_picos(), 4000).min(4095)),
        bytes: dense(&|_, did| share(did.queue_bytes, most_bytes, 4095)),
        packets: dense(&|_, did| share(u64::from(did.queue_packets), packets_scale, 4095)),
        events,
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Two digits of base 64 for each frame up to the last that has a value; values are in order of
/// frames.
fn digits(values: impl Iterator<Item = (usize, u64)>) -> String {
    let mut text = String::new();
    for (frame, value) in values.filter(|(_, value)| *value > 0) {
        while text.len() < 2 * frame {
            text.push('A');
        }
        let value = value.min(4095) as usize;
        text.push(char::from(DIGITS[value / 64]));
        text.push(char::from(DIGITS[value % 64]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::PortId;
    use punctual_record::PortFrame;

    #[test]
    fn digits_hold_what_they_are_given() {
        assert_eq!(digits([(0, 1), (2, 4095), (3, 64), (5, 0)].into_iter()), "ABAA//BA");
        assert_eq!(digits(std::iter::empty()), "");
    }

    fn two_hosts() -> Vec<PortRow> {
        let port = |port, from: &str, to: &str| PortRow {
            port: PortId(port),
            from: from.into(),
            to: to.into(),
            tier: "host-up".into(),
            rate: Rate::from_gbps(10),
            ..PortRow::default()
        };
        vec![port(0, "a", "b"), port(1, "b", "a")]
    }

    fn trace(frames: u32) -> NetworkTrace {
        let frame = Duration::from_micros(1);
        let cell = |n| PortFrame {
            frame: n,
            port: PortId(1),
            did: Activity {
                busy: Duration::from_nanos(500),
                queue_bytes: u64::from(n),
                drops: 1,
                granted: Rate::from_gbps(5),
                ..Activity::default()
            },
        };
        let ended_at = Instant::ZERO + Duration::from_micros(u64::from(frames));
        NetworkTrace { frame, ended_at, cells: (0..frames).map(cell).collect() }
    }

    #[test]
    fn a_run_is_what_was_recorded() {
        let body = run(7, &trace(4), &two_hosts());
        assert_eq!((body.transport, body.frames, body.frame_us, body.end_us), (7, 4, 1.0, 4.0));
        assert_eq!(body.used, ["", "fQfQfQfQ"]); // 2000 of 4000
        assert_eq!((body.most_bytes, &*body.bytes[1]), (3, "AAVVqq//"));
        assert_eq!(body.events["drops"], [[1, 0, 1, 1, 1, 2, 1, 3, 1]]);
        assert_eq!(body.events["granted"], [[1, 0, 500, 1, 500, 2, 500, 3, 500]]);
        assert!(!body.events.contains_key("trims"));
    }

    #[test]
    fn a_page_with_many_runs_has_fewer_frames() {
        let traced =
            |frames| vec![Traced { transport: 0, ports: two_hosts(), trace: Some(trace(frames)) }];
        let frames = |runs_of_page| {
            let section = section(&traced(200), runs_of_page).unwrap();
            let Body::Network(body) = section.body else { unreachable!("it is one") };
            let drops = |run: &RunBody| run.events["drops"][0].iter().skip(2).step_by(2).sum();
            body.runs.first().map(|run| (run.frames, drops(run)))
        };
        assert_eq!(frames(1), Some((200, 200u64)));
        assert_eq!(frames(CELLS / 2 / 100), Some((100, 200)));
        assert_eq!(frames(CELLS), None);
    }

    #[test]
    fn what_was_not_recorded_is_said_to_be_missing() {
        let run = Traced { transport: 0, ports: two_hosts(), trace: None };
        let section = section(&[run], 1).unwrap();
        assert!(section.lead.contains("Not drawn") && section.lead.contains("run.network_trace"));
        // Ideal schedulers have no ports.
        let ideal = Traced { transport: 0, ports: Vec::new(), trace: None };
        assert!(super::section(&[ideal], 1).is_none());
    }
}
