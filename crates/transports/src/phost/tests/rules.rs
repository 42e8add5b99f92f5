//! One test for each rule in `rules.md`.

use super::*;
use proptest::prelude::*;
use punctual_core::{Call, End, ExtArena, Header, HostId, Outbox, PacketFlags, Stack};
use punctual_testkit::{Fault, FaultOdds};
use std::collections::BTreeSet;

/// From a request's or token's first bit to its last at the other end.
const TRIP: Duration = Duration::from_picos(BARE.as_picos() + DELAY.as_picos());

#[test]
fn phost_r01_a_request_goes_first() {
    let (mut pair, flow) = pair(PhostConfig::default(), packets(30));
    assert!(pair.run_until_done(late()));
    let first = pair.trace()[0].packet;
    assert_eq!((header(&first).kind, header(&first).size), (kind::REQUEST, 30 * PAYLOAD));
    assert_eq!((first.wire_bytes, first.class), (40, Class::CONTROL));
    // The first token leaves when the request is there, and packets back to back from when it is
    // back.
    let tokens = sent(&pair, kind::TOKEN);
    assert_eq!(tokens[0].at, Instant::ZERO + TRIP);
    let completed = Instant::ZERO + TRIP * 2 + DATA * 30 + DELAY;
    assert_eq!(pair.result(flow).completed_at, Some(completed));
    assert_eq!(sent(&pair, kind::REQUEST).len(), 1);
}

/// The request is lost, but data goes without tokens: nothing waits for the request.
#[test]
fn phost_r01_whichever_packet_comes_first_opens_the_flow() {
    let (mut pair, flow) = pair(PhostConfig::default(), packets(5));
    pair.set_faults(|_, n| if n == 0 { Fault::Drop } else { Fault::Deliver });
    assert!(pair.run_until_done(late()));
    let completed = Instant::ZERO + BARE + DATA * 5 + DELAY;
    assert_eq!(pair.result(flow).completed_at, Some(completed));
}

#[test]
fn phost_r02_short_flows_need_no_tokens() {
    for (n, tokens) in [(1, 0), (8, 0), (9, 9), (20, 20)] {
        let (mut pair, _) = pair(PhostConfig::default(), packets(n));
        assert!(pair.run_until_done(late()));
        assert_eq!(sent(&pair, kind::TOKEN).len(), tokens, "{n} packets");
        assert_eq!(sent(&pair, kind::DATA).len() as u64, n);
    }
}

#[test]
fn phost_r02_all_flows_may_burst() {
    let config = PhostConfig { free_for: Some(FreeTokensFor::All), ..PhostConfig::default() };
    let (mut pair, flow) = pair(config, packets(30));
    assert!(pair.run_until_done(late()));
    assert_eq!(sent(&pair, kind::TOKEN).len(), 22);
    // The eight cover the round trip, so that packets go back to back from the start.
    let completed = Instant::ZERO + BARE + DATA * 30 + DELAY;
    let took = pair.result(flow).completed_at.expect("completed");
    assert!(took >= completed && took < completed + DATA * 3, "{took} {completed}");
}

/// As many packets as a round trip of the empty network has room for, whatever their size; for
/// flows that have no more, or for all.
#[test]
fn phost_r02_the_first_burst_is_a_round_trip() {
    let rtt = Some(Duration::from_nanos(19_400));
    let authors = PhostConfig { rtt, ..PhostConfig::default() };
    assert_eq!([1_200, 7_251].map(|ns| authors.free_tokens_at(Duration::from_nanos(ns))), [17, 3]);
    assert_eq!(PhostConfig::default().free_tokens_at(DATA), 8);
    assert_eq!(PhostConfig { free_tokens: Some(5), ..authors.clone() }.free_tokens_at(DATA), 5);
    for (variant, size, tokens) in [
        (PhostVariant::Authors, 17, 0),
        (PhostVariant::Authors, 18, 18),
        (PhostVariant::NdpPaper, 17, 0),
        (PhostVariant::NdpPaper, 30, 13),
    ] {
        let (mut pair, _) = pair(PhostConfig { variant, ..authors.clone() }, packets(size));
        assert!(pair.run_until_done(late()));
        assert_eq!(sent(&pair, kind::TOKEN).len(), tokens, "{variant:?}, {size} packets");
    }
}

/// Three tokens come at once, and the NIC has time for the last too late.
#[test]
fn phost_r03_tokens_expire() {
    let host = HostId(0);
    let nic = nic(host);
    let mut stack = Stack::new(PhostConfig::default(), &[nic]);
    let (mut ext, mut out) = (ExtArena::default(), Outbox::default());
    let spec = Pair::new(PhostConfig::default(), path()).spec(packets(30));
    let slot = stack.open_sender(&spec, &route(host), call(0, &mut ext, &mut out));
    for token in 0..3u32 {
        let packet = token_for(u64::from(token), token);
        stack.handle_packet(End::Sender, slot, &packet, call(0, &mut ext, &mut out));
    }
    assert!(stack.poll_transmit(slot, 0, call(0, &mut ext, &mut out)).is_some());
    // 1.5 packet times are 1,800 ns: the last instant is in time, the next is not.
    assert!(stack.poll_transmit(slot, 0, call(1800, &mut ext, &mut out)).is_some());
    assert!(stack.poll_transmit(slot, 0, call(1801, &mut ext, &mut out)).is_none());
    let sender = stack.sender(slot).expect("open");
    assert_eq!(sender.counts(), TokenCounts { got: 3, used: 2, expired: 1 });
    assert_eq!(sender.held(), 0);
}

fn nic(host: HostId) -> NicInfo {
    NicInfo {
        host,
        rate: Rate::from_gbps(10),
        mtu: Bytes::new(1500),
        framing: Bytes::ZERO,
        nics: 1,
    }
}

fn route(local: HostId) -> FlowRoute {
    FlowRoute { local, peer: HostId(1 - local.0), paths: 4, ecmp_path: 0, nics: 1, seed: 1 }
}

fn call<'a>(nanos: u64, ext: &'a mut ExtArena, out: &'a mut Outbox) -> Call<'a> {
    Call { now: Instant::ZERO + Duration::from_nanos(nanos), host: HostId(0), ext, out }
}

fn token_for(packet: u64, token: u32) -> Packet {
    let header =
        PhostHeader { packet, token, missing: 30, kind: kind::TOKEN, ..PhostHeader::default() };
    let mut packet = Packet::new(FlowId(0), HostId(0), Header::new(header));
    packet.flags = PacketFlags::TO_SENDER;
    packet
}

/// Which flow each of the first tokens was for.
fn tokens_of(config: PhostConfig, sizes: &[u64]) -> Vec<u32> {
    let mut pair = Pair::new(config, path());
    for size in sizes {
        pair.start(pair.spec(packets(*size)));
    }
    assert!(pair.run_until_done(late()));
    sent(&pair, kind::TOKEN).iter().map(|t| t.packet.flow.0).collect()
}

#[test]
fn phost_r04_receivers_serve_the_shortest_first() {
    let tokens = tokens_of(PhostConfig::default(), &[40, 20]);
    // The requests come one after the other, so that the first has one token before the second
    // is known.
    let first = tokens.iter().position(|f| *f == 1).expect("the second flow has tokens");
    assert!(first <= 1, "{tokens:?}");
    let until_done = &tokens[first..first + 20];
    assert!(until_done.iter().filter(|f| **f == 1).count() >= 18, "{tokens:?}");
}

#[test]
fn phost_r04_fair_takes_turns() {
    let tokens =
        tokens_of(PhostConfig { policy: TokenPolicy::Fair, ..PhostConfig::default() }, &[40, 40]);
    let turns = tokens[2..60].windows(2).filter(|w| w[0] != w[1]).count();
    assert!(turns > 50, "{tokens:?}");
}

/// Both flows of a host hold tokens: the one that misses less goes first, whoever asked first.
#[test]
fn phost_r04_senders_use_tokens_of_the_shortest_first() {
    let host = HostId(0);
    for (policy, order) in [(TokenPolicy::Shortest, [1, 0]), (TokenPolicy::Fair, [0, 1])] {
        let config = PhostConfig { policy, ..PhostConfig::default() };
        let mut stack = Stack::new(config.clone(), &[nic(host)]);
        let (mut ext, mut out) = (ExtArena::default(), Outbox::default());
        let slots = [40, 20].map(|size| {
            let id = FlowId(u32::from(size == 20));
            let spec = FlowSpec { id, ..Pair::new(config.clone(), path()).spec(packets(size)) };
            stack.open_sender(&spec, &route(host), call(0, &mut ext, &mut out))
        });
        for (slot, missing) in slots.into_iter().zip([40, 20]) {
            let header = PhostHeader { missing, kind: kind::TOKEN, ..PhostHeader::default() };
            let token = Packet::new(FlowId(0), host, Header::new(header));
            stack.handle_packet(End::Sender, slot, &token, call(0, &mut ext, &mut out));
        }
        // The driver asks in the order of asking, again and again.
        let mut went = Vec::new();
        for turn in [0, 1, 0, 1] {
            if let Some(packet) = stack.poll_transmit(slots[turn], 0, call(0, &mut ext, &mut out)) {
                went.push(packet.flow.0);
            }
        }
        assert_eq!(went, order, "{policy:?}");
    }
}

#[test]
fn phost_r05_one_token_each_packet_time() {
    let mut pair = Pair::new(PhostConfig::default(), path());
    for size in [20, 30, 40] {
        pair.start(pair.spec(packets(size)));
    }
    assert!(pair.run_until_done(late()));
    let at: Vec<Instant> = sent(&pair, kind::TOKEN).iter().map(|t| t.at).collect();
    assert!(at.windows(2).all(|w| w[1] >= w[0] + DATA), "{at:?}");
    assert!(at.windows(2).take(80).all(|w| w[1] == w[0] + DATA), "{at:?}");

    // Four free packets of a second flow take four times of the line.
    let mut pair = Pair::new(PhostConfig::default(), path());
    pair.start(pair.spec(packets(40)));
    let spec = FlowSpec { start: Instant::ZERO + DATA * 10, ..pair.spec(packets(4)) };
    pair.start(spec);
    assert!(pair.run_until_done(late()));
    let at: Vec<Instant> = sent(&pair, kind::TOKEN).iter().map(|t| t.at).collect();
    let gaps: Vec<Duration> = at.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.iter().any(|gap| *gap >= DATA * 4), "{gaps:?}");
}

/// Nothing answers: tokens stop at the window.
#[test]
fn phost_r06_at_most_a_window_without_answer() {
    for window in [1, 8, 20] {
        let config = PhostConfig { window: Some(window), ..PhostConfig::default() };
        let (mut pair, flow) = pair(config, packets(100));
        pair.set_faults(|packet, _| {
            if header(packet).kind == kind::DATA { Fault::Drop } else { Fault::Deliver }
        });
        pair.run_until(Instant::ZERO + TRIP + DATA * 24);
        assert_eq!(sent(&pair, kind::TOKEN).len() as u32, window);
        let line = pair.receiver(flow).and_then(PhostReceiver::line).expect("open");
        let tokens = pair.stack().shared(HostId(1)).tokens();
        assert_eq!(tokens.state_of(line), Some((window, 100)));
    }
}

/// After the eighth token 25 packet times pass before the next, and the next.
#[test]
fn phost_r07_a_silent_flow_is_passed_over() {
    let (mut pair, _) = pair(PhostConfig::default(), packets(100));
    pair.set_faults(
        |packet, _| {
            if header(packet).kind == kind::DATA { Fault::Drop } else { Fault::Deliver }
        },
    );
    pair.run_until(Instant::ZERO + DATA * 100);
    let at: Vec<Instant> = sent(&pair, kind::TOKEN).iter().map(|t| t.at).collect();
    let gaps: Vec<Duration> = at.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(gaps[..7], [DATA; 7]);
    assert_eq!(gaps[7..10], [DATA * 25; 3]);
}

/// Two packets are lost; nine packet times after the last token both are asked for again.
#[test]
fn phost_r08_what_is_lost_is_asked_for_again() {
    let (mut pair, flow) = pair(PhostConfig::default(), packets(30));
    let mut lost = BTreeSet::from([5, 17]);
    pair.set_faults(move |packet, _| {
        let is_it = header(packet).kind == kind::DATA && lost.remove(&header(packet).packet);
        if is_it { Fault::Drop } else { Fault::Deliver }
    });
    assert!(pair.run_until_done(late()));
    let tokens = sent(&pair, kind::TOKEN);
    let asked: Vec<u64> = tokens.iter().map(|t| header(&t.packet).packet).collect();
    assert_eq!(asked, (0..30).chain([5, 17]).collect::<Vec<u64>>());
    assert_eq!(tokens[30].at - tokens[29].at, DATA * 9);
    assert_eq!(pair.result(flow).retransmitted, 2);
}

/// A packet lost early in a long flow is asked for again when 1,024 have come after it.
#[test]
fn phost_r08_long_flows_do_not_wait_for_their_end() {
    let (mut pair, flow) = pair(PhostConfig::default(), packets(3_000));
    let mut is_lost = false;
    pair.set_faults(move |packet, _| {
        let is_it = header(packet).kind == kind::DATA && header(packet).packet == 5 && !is_lost;
        is_lost |= is_it;
        if is_it { Fault::Drop } else { Fault::Deliver }
    });
    assert!(pair.run_until_done(late()));
    let tokens = sent(&pair, kind::TOKEN);
    let asked: Vec<usize> =
        (0..tokens.len()).filter(|n| header(&tokens[*n].packet).packet == 5).collect();
    assert_eq!(asked, [5, 5 + 1024 + 1]);
    assert_eq!((tokens.len(), pair.result(flow).retransmitted), (3_001, 1));
}

#[test]
fn phost_r09_three_classes() {
    let mut pair = Pair::new(PhostConfig::default(), path());
    for (size, class) in [(8, 1), (9, 1), (8, 7), (9, 7)] {
        let spec = FlowSpec { class: Class(class), ..pair.spec(packets(size)) };
        pair.start(spec);
    }
    assert!(pair.run_until_done(late()));
    for t in pair.trace() {
        let is_data = header(&t.packet).kind == kind::DATA;
        let class = [1, 2, 7, 7][t.packet.flow.index()];
        assert_eq!(t.packet.class, if is_data { Class(class) } else { Class::CONTROL });
    }
}

#[test]
fn phost_r09_default_queue_is_short_and_by_class() {
    let queue = |mtu| PhostConfig::default().default_queue(Rate::from_gbps(10), Bytes::new(mtu));
    let of = |bytes| QueueSpec::Priority { limit: Limit::Bytes(Bytes::new(bytes)) };
    assert_eq!((queue(1500), queue(9000)), (of(36_864), of(72_000)));
}

#[test]
fn phost_r10_the_receiver_says_when_all_is_there() {
    let (mut pair, flow) = pair(PhostConfig::default(), packets(30));
    assert!(pair.run_until_done(late()));
    let acks = sent(&pair, kind::ACK);
    let result = pair.result(flow);
    assert_eq!((acks.len(), Some(acks[0].at)), (1, result.completed_at));
    assert_eq!(result.finished_at, Some(acks[0].at + TRIP));
}

/// The first three requests are lost, and the first acknowledgement: 1, 2 and 4 ms are waited for
/// the one, 1 ms for the other.
#[test]
fn phost_r10_lost_requests_and_acknowledgements_are_repaired() {
    let (mut pair, flow) = pair(PhostConfig::default(), packets(30));
    let mut lost = [0, 0];
    pair.set_faults(move |packet, _| {
        let (which, most) = match header(packet).kind {
            kind::REQUEST => (0, 3),
            kind::ACK => (1, 1),
            _ => return Fault::Deliver,
        };
        lost[which] += 1;
        if lost[which] <= most { Fault::Drop } else { Fault::Deliver }
    });
    assert!(pair.run_until_done(late()));
    let ms = |n| Instant::ZERO + Duration::from_millis(n);
    let requests: Vec<Instant> = sent(&pair, kind::REQUEST).iter().map(|t| t.at).collect();
    assert_eq!(requests[..4], [ms(0), ms(1), ms(3), ms(7)]);
    assert_eq!(requests.len(), 5);
    let finished = pair.result(flow).finished_at.expect("finished");
    assert!(finished > ms(8) && finished < ms(9), "{finished}");
}

#[test]
fn phost_r10_empty_flow_completes() {
    let (mut pair, flow) = pair(PhostConfig::default(), Bytes::ZERO);
    assert!(pair.run_until_done(late()));
    assert_eq!(pair.result(flow).completed_at, Some(Instant::ZERO + TRIP));
}

#[test]
fn phost_r11_packets_are_sprayed() {
    let (mut pair, _) = pair(PhostConfig::default(), packets(30));
    assert!(pair.run_until_done(late()));
    assert!(pair.trace().iter().all(|t| t.packet.flags.has(PacketFlags::SWITCH_PATH)));
}

#[test]
fn phost_r12_malformed_packets_change_nothing() {
    let host = HostId(0);
    let mut stack = Stack::new(PhostConfig::default(), &[nic(host)]);
    let (mut ext, mut out) = (ExtArena::default(), Outbox::default());
    let size = 30 * PAYLOAD;
    let of = |kind, size, packet, payload_bytes| {
        let header = PhostHeader { size, packet, kind, ..PhostHeader::default() };
        let mut packet = Packet::new(FlowId(0), host, Header::new(header));
        packet.payload_bytes = payload_bytes;
        packet
    };
    let request = of(kind::REQUEST, size, 0, 0);
    let slot = stack.open_receiver(&request, &route(host), call(0, &mut ext, &mut out));
    stack.handle_packet(End::Receiver, slot, &request, call(0, &mut ext, &mut out));
    for bad in [
        of(kind::DATA, size + 1, 0, 1460),
        of(kind::DATA, size, 30, 1460),
        of(kind::DATA, size, u64::MAX, 1460),
        of(kind::DATA, size, 0, 1459),
        of(kind::TOKEN, size, 0, 0),
        of(0, size, 0, 1460),
        of(200, size, 0, 1460),
    ] {
        stack.handle_packet(End::Receiver, slot, &bad, call(0, &mut ext, &mut out));
        assert!(out.events.is_empty() && out.packets.is_empty(), "{bad:?}");
    }
    let line = stack.receiver(slot).and_then(PhostReceiver::line).expect("open");
    assert_eq!(stack.shared(host).tokens().state_of(line), Some((0, 30)));

    // A token for a packet that does not exist is none.
    let spec = Pair::new(PhostConfig::default(), super::path()).spec(packets(30));
    let slot = stack.open_sender(&spec, &route(host), call(0, &mut ext, &mut out));
    stack.handle_packet(End::Sender, slot, &token_for(30, 0), call(0, &mut ext, &mut out));
    assert_eq!(stack.sender(slot).expect("open").counts(), TokenCounts::default());
}

/// A line of 25 packets there and back: eight tokens fill a third of it, those of a round trip all
/// of it. What is missing at the end is asked for again when it cannot be on its way any more, and
/// a flow that is silent is passed over for three round trips.
#[test]
fn phost_r14_windows_and_waits_follow_the_round_trip() {
    let long = || PairPath { delay: Duration::from_micros(15), ..PairPath::default() };
    // From a token's first bit to its data's last.
    let trip = Duration::from_micros(30) + BARE + DATA;
    let window = 27;
    assert_eq!(trip.as_picos().div_ceil(DATA.as_picos()), window);
    let took = |variant| {
        let mut pair = Pair::new(PhostConfig { variant, ..PhostConfig::default() }, long());
        let flow = pair.start(pair.spec(packets(400)));
        let mut is_lost = false;
        pair.set_faults(move |packet, _| {
            let is_it = header(packet).kind == kind::DATA && header(packet).packet == 399;
            let is_first = is_it && !std::mem::replace(&mut is_lost, true);
            if is_first { Fault::Drop } else { Fault::Deliver }
        });
        pair.run_until(Instant::ZERO + DATA * 300);
        let line = pair.receiver(flow).and_then(PhostReceiver::line).expect("open");
        let tokens = pair.stack().shared(HostId(1)).tokens();
        let (outstanding, trip) =
            (tokens.state_of(line).expect("open").0, tokens.round_trip_of(line));
        assert!(pair.run_until_done(late()));
        let asked: Vec<Instant> = sent(&pair, kind::TOKEN).iter().map(|t| t.at).collect();
        let waited = asked[asked.len() - 1] - asked[asked.len() - 2];
        (outstanding, trip, waited, pair.result(flow).completed_at.expect("completed"))
    };
    let (outstanding, measured, _, authors) = took(PhostVariant::Authors);
    assert_eq!((outstanding, measured), (8, None));
    let (outstanding, measured, waited, ndp) = took(PhostVariant::NdpPaper);
    assert_eq!((measured, waited), (Some(trip), trip));
    // 26.03 packet times: one of the 27 has just been answered, most of the time.
    assert!((window - 1..=window).contains(&u64::from(outstanding)), "{outstanding}");
    // 400 packets and three round trips, the first of which half idle, and that of the loss.
    assert!(ndp < Instant::ZERO + DATA * 400 + trip * 4, "{ndp}");
    assert!(authors > Instant::ZERO + DATA * 400 * 3, "{authors}");
    let downgraded = |variant| {
        let mut pair = Pair::new(PhostConfig { variant, ..PhostConfig::default() }, long());
        pair.start(pair.spec(packets(400)));
        pair.set_faults(|packet, _| {
            let is_late = header(packet).kind == kind::DATA && header(packet).packet >= 100;
            if is_late { Fault::Drop } else { Fault::Deliver }
        });
        pair.run_until(Instant::ZERO + DATA * 1000);
        let asked: Vec<Instant> = sent(&pair, kind::TOKEN).iter().map(|t| t.at).collect();
        asked[asked.len() - 1] - asked[asked.len() - 2]
    };
    assert_eq!(downgraded(PhostVariant::Authors), DATA * 25);
    assert_eq!(downgraded(PhostVariant::NdpPaper), trip * 3);
}

#[test]
fn nonsense_is_refused_with_a_reason() {
    assert_eq!(PhostConfig::default().validate(), Ok(()));
    for (bad, word) in [
        (PhostConfig { payload: Some(Bytes::ZERO), ..PhostConfig::default() }, "payload"),
        (PhostConfig { window: Some(0), ..PhostConfig::default() }, "window"),
        (PhostConfig { free_tokens: Some(2_000_000), ..PhostConfig::default() }, "free_tokens"),
        (PhostConfig { rtt: Some(Duration::ZERO), ..PhostConfig::default() }, "rtt"),
        (PhostConfig { token_life: f64::NAN, ..PhostConfig::default() }, "token_life"),
        (PhostConfig { downgrade: 0.0, ..PhostConfig::default() }, "downgrade"),
        (PhostConfig { reissue: -1.0, ..PhostConfig::default() }, "reissue"),
        (
            PhostConfig { request_timeout: Duration::ZERO, ..PhostConfig::default() },
            "request_timeout",
        ),
    ] {
        let said = bad.validate().expect_err(word).to_string();
        assert!(said.contains(word), "{said}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(64)))]

    /// Whatever the line does and whoever shares it, flows end, and all the while each token got
    /// was used, has expired or is held, and nobody got more than were issued.
    #[test]
    fn phost_r13_tokens_are_conserved(
        sizes in prop::collection::vec(0u64..100_000, 1..6),
        odds in (0.0f64..0.2, 0.0f64..0.2),
        is_fair in any::<bool>(),
        as_in_ndp in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let config = PhostConfig {
            policy: if is_fair { TokenPolicy::Fair } else { TokenPolicy::Shortest },
            variant: if as_in_ndp { PhostVariant::NdpPaper } else { PhostVariant::Authors },
            ..PhostConfig::default()
        };
        let mut pair = Pair::new(config.clone(), path());
        let odds =
            FaultOdds { drop: odds.0, delay: odds.1, ..FaultOdds::default() };
        pair.set_faults(odds.rule(seed));
        let flows: Vec<FlowId> =
            sizes.iter().map(|s| pair.start(pair.spec(Bytes::new(*s)))).collect();
        let mut free = vec![0; sizes.len()];
        for (n, size) in sizes.iter().enumerate() {
            free[n] = config.free_of(size.div_ceil(PAYLOAD), config.free_tokens_at(DATA));
        }
        for step in 1..200u64 {
            pair.run_until(Instant::ZERO + Duration::from_micros(step * 7));
            for (n, flow) in flows.iter().enumerate() {
                let (Some(sender), Some(receiver)) = (pair.sender(*flow), pair.receiver(*flow))
                else {
                    continue;
                };
                let counts = sender.counts();
                prop_assert_eq!(counts.got, counts.used + counts.expired + sender.held());
                let tokens = pair.stack().shared(HostId(1)).tokens();
                let issued = receiver.line().and_then(|line| tokens.issued_of(line));
                if let Some(issued) = issued {
                    prop_assert!(counts.got <= u64::from(issued), "{counts:?} of {issued}");
                }
                prop_assert!(counts.got >= free[n]);
                let delivered = pair.result(*flow).delivered.total().div_ceil(PAYLOAD);
                prop_assert!(delivered <= counts.used);
            }
        }
        prop_assert!(pair.run_until_done(late()));
        for ((flow, size), free) in flows.iter().zip(&sizes).zip(&free) {
            prop_assert_eq!(pair.result(*flow).delivered.total(), *size);
            // No packet without a token of its own, and no token that nobody issued.
            let numbers = |of: u8| {
                let sent = sent(&pair, of).into_iter().filter(|t| t.packet.flow == *flow);
                sent.map(|t| header(&t.packet).token).collect::<Vec<u32>>()
            };
            let issued: BTreeSet<u32> = (0..*free as u32).chain(numbers(kind::TOKEN)).collect();
            let used = numbers(kind::DATA);
            let once: BTreeSet<u32> = used.iter().copied().collect();
            prop_assert_eq!(once.len(), used.len());
            prop_assert!(once.is_subset(&issued), "{once:?} {issued:?}");
        }
    }
}
