use super::*;
use punctual_core::Bytes;
use punctual_net::Topology;

const PORT: PortId = PortId(0);

fn recorder(most_frames: usize) -> Recorder {
    let pair = Topology::pair(Rate::from_gbps(10), Duration::from_micros(1));
    let network = Network::from_topology(pair, Bytes::new(1500), Bytes::ZERO).expect("a way");
    Recorder::with_frames(&network, most_frames)
}

fn nanos(nanos: u64) -> Instant {
    Instant::ZERO + Duration::from_nanos(nanos)
}

fn concluded(mut recorder: Recorder, at: Instant) -> NetworkTrace {
    let mut findings = Findings::default();
    recorder.conclude(&Ending { at, waiting: vec![0, 0], alive: 0, flows: &[] }, &mut findings);
    findings.network.expect("it recorded")
}

/// A value of port 0, by frame.
fn of_port(trace: &NetworkTrace, get: fn(&Activity) -> u64) -> Vec<(u32, u64)> {
    let own = trace.cells.iter().filter(|cell| cell.port == PORT);
    own.map(|cell| (cell.frame, get(&cell.did))).collect()
}

fn sends(recorder: &mut Recorder, from: u64, until: u64, bytes: u64) {
    recorder.begins(PORT, Transmission { from: nanos(from), until: nanos(until), bytes });
}

#[test]
fn bytes_are_split_where_frames_end() {
    let mut recorder = recorder(100);
    // A third of it in the first frame, a third in the second, and all of another in the second.
    sends(&mut recorder, 150, 450, 301);
    sends(&mut recorder, 450, 480, 30);
    let trace = concluded(recorder, nanos(1000));
    // 301 · 100/300 is 100.3: a byte counts in the frame in which it ends.
    assert_eq!(of_port(&trace, |did| did.sent_bytes), [(0, 100), (1, 231), (3, 0)]);
    assert_eq!(of_port(&trace, |did| did.busy.as_picos()), [(0, 100_000), (1, 230_000), (3, 0)]);
    assert_eq!((trace.frame, trace.frames()), (FIRST_FRAME, 4));
}

#[test]
fn what_is_sent_after_the_end_does_not_count() {
    let mut recorder = recorder(100);
    sends(&mut recorder, 900, 1100, 200);
    let trace = concluded(recorder, nanos(1001));
    assert_eq!(of_port(&trace, |did| did.sent_bytes), [(3, 100), (4, 1)]);
    assert_eq!(trace.span(4), (nanos(1000), nanos(1001)));
}

#[test]
fn frames_merge_when_there_would_be_too_many() {
    let mut recorder = recorder(8);
    for n in 0..100 {
        recorder.event_begins(nanos(100 * n));
        recorder.queue_length(PORT, 10 + n, 1);
        recorder.queue_length(PORT, 0, 0);
        recorder.cell(nanos(100 * n), PORT).drops += 1;
        sends(&mut recorder, 100 * n, 100 * n + 80, 100);
    }
    let trace = concluded(recorder, nanos(10_000));
    // 10 µs in at most 8 frames of 0.25 µs times a power of two.
    assert_eq!((trace.frame, trace.frames()), (Duration::from_micros(2), 5));
    assert_eq!(of_port(&trace, |did| did.sent_bytes), [0, 1, 2, 3, 4].map(|f| (f, 2_000)));
    assert_eq!(of_port(&trace, |did| u64::from(did.drops)), [0, 1, 2, 3, 4].map(|f| (f, 20)));
    assert_eq!(of_port(&trace, |did| did.busy.as_nanos()), [0, 1, 2, 3, 4].map(|f| (f, 1_600)));
    // Merged frames keep the longest queue.
    let longest = [(0, 29), (1, 49), (2, 69), (3, 89), (4, 109)];
    assert_eq!(of_port(&trace, |did| did.queue_bytes), longest);
}

#[test]
fn a_queue_that_stands_still_is_in_every_frame() {
    let mut recorder = recorder(100);
    recorder.event_begins(nanos(100));
    recorder.queue_length(PORT, 3000, 2);
    // Exactly at the end of a frame: that frame has it, the next does not.
    recorder.event_begins(nanos(750));
    recorder.queue_length(PORT, 0, 0);
    let trace = concluded(recorder, nanos(1000));
    let expected = [(0, 3000), (1, 3000), (2, 3000), (3, 0)];
    assert_eq!(of_port(&trace, |did| did.queue_bytes), expected);
    assert_eq!(trace.cells[1].did.queue_packets, 2);
}

#[test]
fn pauses_last_until_every_class_goes_on() {
    let mut recorder = recorder(100);
    let mut at = |time, class, is_pause| {
        recorder.event_begins(nanos(time));
        recorder.class_paused(PORT, Class(class), is_pause);
    };
    at(100, 1, true);
    at(200, 2, true);
    at(300, 1, false);
    at(600, 2, false);
    at(900, 2, true);
    let trace = concluded(recorder, nanos(950));
    let expected = [(0, 150), (1, 250), (2, 100), (3, 50)];
    assert_eq!(of_port(&trace, |did| did.paused.as_nanos()), expected);
    assert_eq!(trace.cells[0].did.pauses, 2);
}

#[test]
fn a_trace_is_bounded_however_large_the_network() {
    let links = punctual_net::ClosLinks::uniform(Rate::from_gbps(10), Duration::from_micros(1));
    for (k, frames) in [(4, 200), (8, 41), (16, FEWEST_FRAMES)] {
        let shape = punctual_net::ClosShape::fat_tree(k, 1);
        let network = shape.build(&links, Bytes::new(1500), Bytes::ZERO);
        let mut recorder = Recorder::new(&network);
        for second in 0..100 {
            recorder.event_begins(Instant::ZERO + Duration::from_secs(second));
            recorder.queue_length(PORT, 1, 1);
        }
        assert!(recorder.cells.len() <= frames * network.links.len(), "k = {k}");
        let trace = concluded(recorder, Instant::ZERO + Duration::from_secs(99));
        assert!(trace.frames() as usize <= frames && trace.frames() as usize > frames / 2);
    }
}
