//! Two engines in one thread, whose clocks jump as after a pause of their process.

use super::super::operations::Operations as _;
use super::super::services::Service;
use super::*;
use crate::bind;

struct Pair {
    sender: Engine,
    receiver: Engine,
    id: u64,
}

const BYTES: usize = 1_000_000;
/// Longer than the silence after which a peer is given up, by default.
const LONG: std::time::Duration = std::time::Duration::from_secs(6);

impl Pair {
    /// A message of which some bytes have arrived, just after its flow was opened.
    fn in_mid_message() -> Pair {
        let engine = || {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let socket = bind(any).expect("a socket");
            let local = socket.local_addr().expect("an address");
            let options = EndpointOptions::default();
            assert!(LONG > options.silence);
            (Engine::new(socket, local, options).expect("an engine"), local)
        };
        let ((mut sender, _), (mut receiver, to)) = (engine(), engine());
        receiver.listen(Service::default());
        let id = sender.submit(to, vec![7; BYTES], Reply::None, &SendOptions::default());
        let mut pair = Pair { sender, receiver, id: id.expect("a send") };
        pair.run_until(|pair| pair.arrived() > 0);
        assert!(pair.arrived() < BYTES);
        pair
    }

    fn arrived(&self) -> usize {
        self.receiver.state.inbound.values().map(|inbound| inbound.readable()).sum()
    }

    fn run_until(&mut self, mut is_done: impl FnMut(&mut Pair) -> bool) {
        let begin = std::time::Instant::now();
        while !is_done(self) {
            assert!(begin.elapsed() < std::time::Duration::from_secs(20), "not after 20 s");
            self.sender.step();
            self.receiver.step();
        }
    }

    /// Runs until the send has ended, and checks that the message arrived.
    fn finish(mut self) {
        let mut outcome = None;
        self.run_until(|pair| {
            outcome = pair.sender.take_outcome(pair.id);
            outcome.is_some()
        });
        assert!(matches!(outcome, Some((Outcome::Done(_), None))), "{outcome:?}");
        assert_eq!(self.arrived(), BYTES);
    }
}

/// Runs one end alone, until it waits for the other.
fn rest(engine: &mut Engine) {
    for _ in 0..50 {
        engine.step();
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}

/// Neither end takes a pause of both for silence of the other, however shortly the flow was opened
/// before it.
#[test]
fn pause__of_both_ends_is_no_silence() {
    let mut pair = Pair::in_mid_message();
    rest(&mut pair.receiver);
    pair.sender.driver.skip(LONG);
    pair.receiver.driver.skip(LONG);
    // The receiver goes on first: nothing that waits in its socket is new.
    for _ in 0..100 {
        pair.receiver.step();
    }
    pair.finish();
}

/// A short pause after a long one, before the peer is heard again, does not make that forgotten.
#[test]
fn pause__a_second_one_adds_to_the_first() {
    let mut pair = Pair::in_mid_message();
    rest(&mut pair.sender);
    for time in [LONG, LONG / 20] {
        pair.sender.driver.skip(time);
        pair.receiver.driver.skip(time);
        pair.sender.step();
        // Rounds that look for silent peers are this far from each other.
        std::thread::sleep(std::time::Duration::from_millis(60));
        pair.sender.step();
    }
    pair.finish();
}

/// A peer that is silent while this process runs is given up as ever.
#[test]
fn silence__is_noticed_when_the_process_runs() {
    let mut pair = Pair::in_mid_message();
    let mut outcome = None;
    // Steps of the clock that are too short for a pause.
    for _ in 0..70 {
        pair.sender.driver.skip(std::time::Duration::from_millis(90));
        pair.sender.step();
        outcome = outcome.or_else(|| pair.sender.take_outcome(pair.id));
    }
    let is_silent = |o: &Outcome| matches!(o, Outcome::Failed(SendError::PeerSilent { .. }, _));
    assert!(outcome.as_ref().is_some_and(|(o, _)| is_silent(o)), "{outcome:?}");
}
