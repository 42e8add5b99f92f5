#![allow(non_snake_case)]

use super::*;
use punctual_core::Rate;

const SPACING: Duration = Duration::from_micros(10);

fn at_us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(us)
}

fn nic(host: u32) -> NicInfo {
    NicInfo {
        host: HostId(host),
        rate: Rate::from_gbps(10),
        mtu: Bytes::new(1500),
        framing: Bytes::ZERO,
        nics: 1,
    }
}

fn queue(config: NdpConfig) -> PullQueue {
    PullQueue::new(&NdpConfig { pull_spacing: Some(SPACING), ..config }, &nic(1))
}

fn route(paths: u32, seed: u64) -> FlowRoute {
    FlowRoute { local: HostId(1), peer: HostId(0), paths, ecmp_path: 0, nics: 1, seed }
}

fn open(queue: &mut PullQueue, flow: u32, class: u8) -> u32 {
    queue.open(FlowId(flow), class, &route(4, 1), Instant::ZERO)
}

/// A queue whose next slot is 10 µs away, so that pulls wait.
fn busy(config: NdpConfig) -> PullQueue {
    let mut queue = queue(config);
    queue.take_slot(Instant::ZERO);
    queue
}

/// All pulls that wait, in the order in which they leave.
fn drain(queue: &mut PullQueue) -> Vec<u32> {
    // Bounded, so that a queue that never empties fails.
    (0..100).map_while(|_| queue.take_turn().or_else(|| queue.take_spare())).collect()
}

#[test]
fn add__one_leaves_at_once_and_the_others_wait() {
    let mut queue = queue(NdpConfig::default());
    let line = open(&mut queue, 0, 0);
    assert!(!queue.has_waiting());
    assert_eq!(queue.add(line, 1, 0, Instant::ZERO), Some(1));
    assert!(!queue.has_waiting());
    assert_eq!((queue.pending(), queue.last_sent(line)), (0, Some(1)));

    for waiting in 1..=3 {
        assert_eq!(queue.add(line, 1, 0, at_us(9)), None, "its slot begins at 10 µs");
        assert_eq!(queue.pending(), waiting);
        assert_eq!(queue.last_sent(line), None, "another one will follow anyway");
    }
    assert!(queue.has_waiting());
    assert_eq!(queue.add(line, 1, 0, at_us(10)), None, "after those that wait");
    assert_eq!(drain(&mut queue), [line; 4]);
    assert!(!queue.has_waiting());
    assert_eq!(queue.pending(), 0);
    assert_eq!(queue.add(line, 1, 0, at_us(10)), Some(2), "in its slot");
}

#[test]
fn add_waiting__queues_a_flow_once_for_all_its_pulls() {
    let mut queue = busy(NdpConfig::default());
    let [a, b] = [0, 1].map(|flow| open(&mut queue, flow, 0));
    queue.add_waiting(a, 0);
    assert!(!queue.has_waiting());
    queue.add_waiting(a, 2);
    queue.add_waiting(b, 1);
    queue.add_waiting(a, 1);
    queue.add_waiting(b, 0);
    assert_eq!(queue.pending(), 4);
    assert_eq!(drain(&mut queue), [a, b, a, a]);
}

#[test]
fn turns__urgent_classes_go_first() {
    let mut queue = busy(NdpConfig::default());
    let lines = [5, 0, 7, 1].map(|class| open(&mut queue, u32::from(class), class));
    lines.iter().for_each(|line| queue.add_waiting(*line, 2));
    let [five, zero, seven, one] = lines;
    assert_eq!(drain(&mut queue), [zero, zero, one, one, five, five, seven, seven]);
    assert!(!queue.has_waiting());
}

#[test]
fn flush__drops_the_pulls_of_one_flow() {
    for class in [0, 3] {
        let mut queue = busy(NdpConfig::default());
        let [a, b] = [0, 1].map(|flow| open(&mut queue, flow, class));
        let other = open(&mut queue, 2, 5);
        queue.flush(a);
        assert!(!queue.has_waiting());
        for line in [a, b, other] {
            queue.add_waiting(line, 2);
            queue.lines.get_mut(line).expect("open").spare = 1;
            queue.spare.push_back(line);
        }
        queue.flush(a);
        assert_eq!(queue.pending(), 4);
        queue.close(b);
        assert_eq!(drain(&mut queue), [other, other, other], "two pulls and a spare one");
        assert_eq!(queue.classes, 0);
        assert_eq!(queue.last_sent(b), None, "closed");
    }
}

#[test]
fn flush__leaves_what_does_not_wait() {
    let mut queue = busy(NdpConfig::default());
    let [a, b] = [0, 1].map(|flow| open(&mut queue, flow, 0));
    queue.add_waiting(b, 1);
    queue.flush(a);
    assert_eq!(drain(&mut queue), [b]);
}

/// An arrival that leaves room for more in the window.
fn arrival(seq: u64) -> Arrival {
    Arrival { seq, sent_at: seq, echo: 0, is_trimmed: false, missing: u64::MAX }
}

#[test]
fn spare_pulls__take_turns_after_all_others() {
    let config = NdpConfig { path_window: Some(64), initial_window: 8, ..NdpConfig::default() };
    let mut queue = busy(config);
    assert!(queue.follows_paths());
    let [a, b] = [0, 1].map(|flow| open(&mut queue, flow, 0));
    for (line, spare) in [(a, 2), (b, 1)] {
        queue.lines.get_mut(line).expect("open").spare = spare;
        queue.spare.push_back(line);
    }
    queue.add_waiting(b, 1);
    assert!(queue.has_waiting());
    assert_eq!(queue.take_turn(), Some(b));
    assert!(queue.has_waiting(), "spare ones");
    assert_eq!(queue.take_turn(), None);
    let order: Vec<u32> = (0..9).map_while(|_| queue.take_spare()).collect();
    assert_eq!(order, [a, b, a]);
    assert!(!queue.has_waiting());
}

#[test]
fn windows__count_every_pull_and_every_refusal() {
    let config = NdpConfig { path_window: Some(64), initial_window: 8, ..NdpConfig::default() };
    let mut queue = queue(config);
    let line = open(&mut queue, 0, 0);
    let window = |queue: &PullQueue| {
        let entry = queue.lines.get(line).expect("open");
        entry.window.as_ref().expect("it follows the path").counts()
    };
    assert_eq!(window(&queue), (0, 0));
    queue.note_refused(line);
    assert_eq!(window(&queue), (0, 1), "pulls, arrivals");
    queue.add_waiting(line, 3);
    assert_eq!(window(&queue), (3, 1));
    let fixed = &mut self::queue(NdpConfig::default());
    assert!(!fixed.follows_paths());
    let line = open(fixed, 0, 0);
    assert_eq!(fixed.add_within_window(line, 0, 0, &arrival(0), Instant::ZERO), None);
}

#[test]
fn slots__late_pulls_keep_theirs_within_the_burst() {
    let mut queue = queue(NdpConfig { pull_burst: 2, ..NdpConfig::default() });
    queue.take_slot(at_us(100));
    assert_eq!(queue.next_at(), at_us(90), "two slots are kept, and one is taken");
    queue.take_slot(at_us(100));
    assert_eq!(queue.next_at(), at_us(100));
    queue.take_slot(at_us(100));
    assert_eq!(queue.next_at(), at_us(110));
}

#[test]
fn answers__take_their_path_or_every_path_in_turn() {
    let mut queue = queue(NdpConfig::default());
    let line = queue.open(FlowId(0), 0, &route(3, 1), Instant::ZERO);
    let mut lead = |answered| {
        let header = NdpHeader {
            seq: 0,
            cumulative: 0,
            sent_at: 0,
            pull: 0,
            path: 0,
            kind: kind::ACK,
            flags: 0,
        };
        let mut packet = header.control(FlowId(0), HostId(0));
        queue.lead_back(line, answered, &mut packet);
        assert!(packet.is_to_sender());
        (packet.path, packet.flags.has(PacketFlags::REVERSE_PATH))
    };
    assert_eq!(lead(Some(2)), (2, true));
    assert_eq!(lead(Some(3)), (0, false), "no such path");
    let turns: Vec<_> = (0..4).map(|_| lead(None)).collect();
    assert_eq!(turns, [(1, false), (2, false), (0, false), (1, false)]);
}

fn jittery(host: u32, table: &[(f64, u64)]) -> PullQueue {
    let pull_jitter = table.iter().map(|(share, us)| (*share, Duration::from_micros(*us)));
    let config = NdpConfig { pull_jitter: pull_jitter.collect(), ..NdpConfig::default() };
    PullQueue::new(&config, &nic(host))
}

fn spacings(queue: &mut PullQueue, count: usize) -> Vec<f64> {
    (0..count).map(|_| queue.draw_spacing().as_secs_f64() * 1e6).collect()
}

/// A quarter of the spacings are the shortest, a quarter the longest, and the rest lie evenly
/// between, a third of them in each third.
#[test]
fn jitter__spacings_follow_their_distribution() {
    let drawn = spacings(&mut jittery(1, &[(0.25, 10), (0.75, 40)]), 10_000);
    let share = |low: f64, high: f64| {
        let within = drawn.iter().filter(|us| (low..=high).contains(*us)).count();
        within as f64 / drawn.len() as f64
    };
    // Four standard deviations of a share of 10,000 are below 0.02.
    let table = [
        (10.0, 10.0, 0.25),
        (40.0, 40.0, 0.25),
        (10.001, 20.0, 1.0 / 6.0),
        (20.0, 30.0, 1.0 / 6.0),
        (30.0, 39.999, 1.0 / 6.0),
    ];
    for (low, high, expected) in table {
        let found = share(low, high);
        assert!((found - expected).abs() < 0.02, "{low} to {high} µs: {found}");
    }
}

/// The seeds of flows and the numbers of hosts both count, whatever bits a seed has.
#[test]
fn jitter__hosts_and_runs_differ() {
    let table = [(0.0, 10), (1.0, 40)];
    for seed in [0, 1, u64::MAX] {
        let [a, b] = [1, 2].map(|host| {
            let mut queue = jittery(host, &table);
            queue.open(FlowId(0), 0, &route(4, seed), Instant::ZERO);
            spacings(&mut queue, 8)
        });
        assert_ne!(a, b, "hosts with the seed {seed}");
    }
    let [a, b] = [1, 2].map(|seed| {
        let mut queue = jittery(1, &table);
        queue.open(FlowId(0), 0, &route(4, seed), Instant::ZERO);
        spacings(&mut queue, 8)
    });
    assert_ne!(a, b, "seeds");
}
