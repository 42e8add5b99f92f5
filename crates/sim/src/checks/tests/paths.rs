//! Listed paths, and packets that exchange their slots.

use super::super::paths::{ListedPaths, is_sound};
use super::super::ports::InService;
use super::*;

const A: PacketId = PacketId(0);
const B: PacketId = PacketId(3);

/// Two racks of two hosts and two spines: two paths of four links between racks.
fn network() -> Network {
    let links = ClosLinks::uniform(RATE, US);
    ClosShape::leaf_spine(2, 2, 2).build(&links, Bytes::new(1500), Bytes::ZERO)
}

/// What is wrong with a packet from host 0 to host 3 that passes these links.
fn passes(network: &Network, links: &[PortId]) -> Vec<String> {
    let mut paths = ListedPaths::new(network);
    paths.made(B, HostId(0), 0);
    links.iter().filter_map(|link| paths.passes(B, *link, HostId(3))).collect()
}

#[test]
fn paths__every_listed_path_and_its_reverse_is_sound() {
    let network = network();
    assert_eq!(network.paths(HostId(0), HostId(3)), 2);
    for path in 0..2 {
        let there = network.path_links(HostId(0), HostId(3), path);
        assert_eq!((there.len(), passes(&network, &there)), (4, Vec::new()));
        let back = network.path_links(HostId(3), HostId(0), path);
        let back: Vec<PortId> = back.iter().rev().map(|port| network.link(*port).twin).collect();
        assert_eq!(passes(&network, &back), Vec::<String>::new());
    }
}

#[test]
fn paths__a_chain_with_a_gap_or_from_another_host_is_none_of_theirs() {
    let network = network();
    let there = network.path_links(HostId(0), HostId(3), 0);
    assert_one(&passes(&network, &there[1..]), "took a path that is none of theirs");
    let gap = [there[0], there[3]];
    assert_one(&passes(&network, &gap), "took a path that is none of theirs");
    let neighbour = network.path_links(HostId(1), HostId(3), 0);
    assert_one(&passes(&network, &neighbour), "from host 0 to host 3");
    // Up to a spine and back down before it goes on: the rack's switch is met twice.
    let other = network.path_links(HostId(0), HostId(3), 1);
    let detour = [there[0], there[1], network.link(there[1]).twin, other[1], other[2], other[3]];
    assert_one(&passes(&network, &detour), "took a path that is none of theirs");
    // No such path counts as theirs either if the network lists it.
    let is_theirs = |path: &[PortId]| is_sound(&network, HostId(0), HostId(3), path);
    assert!(is_theirs(&there) && is_theirs(&other));
    for wrong in [&there[1..], &there[..3], &gap, &neighbour, &detour, &[]] {
        assert!(!is_theirs(wrong), "{wrong:?}");
    }
}

#[test]
fn paths__a_packet_in_circles_is_noticed() {
    let network = network();
    let up = network.path_links(HostId(0), HostId(3), 0)[1];
    let circles: Vec<PortId> = [up, network.link(up).twin].into_iter().cycle().take(65).collect();
    assert_eq!(passes(&network, &circles[..64]), Vec::<String>::new());
    assert_one(&passes(&network, &circles), "passed 64 links");
}

#[test]
fn paths__a_returned_header_goes_back_as_it_came() {
    let network = network();
    let there = network.path_links(HostId(0), HostId(3), 0);
    let twin = |link: PortId| network.link(link).twin;
    let returns = |links: &[PortId]| -> Vec<String> {
        let mut paths = ListedPaths::new(&network);
        paths.made(B, HostId(0), 0);
        for link in &there[..2] {
            assert_eq!(paths.passes(B, *link, HostId(3)), None);
        }
        paths.bounced(B);
        links.iter().filter_map(|link| paths.passes(B, *link, HostId(0))).collect()
    };
    assert_eq!(returns(&[twin(there[1]), twin(there[0])]), Vec::<String>::new());
    assert_one(&returns(&[twin(there[0])]), "left the links it came by");
}

#[test]
fn paths__packets_that_exchange_slots_keep_their_walks() {
    let network = network();
    let mut paths = ListedPaths::new(&network);
    paths.made(A, HostId(0), 5);
    paths.made(B, HostId(1), 9);
    assert!(paths.is_on(A, 5) && !paths.is_on(A, 9) && paths.is_on(B, 9));
    assert!(paths.is_on(PacketId(70), 1), "nothing is known of it");
    let there = network.path_links(HostId(0), HostId(3), 0);
    assert_eq!(paths.passes(A, there[0], HostId(3)), None);
    paths.swapped(A, B);
    assert!(paths.is_on(B, 5) && paths.is_on(A, 9));
    for link in &there[1..] {
        assert_eq!(paths.passes(B, *link, HostId(3)), None);
    }
    // Nothing to exchange: slots of which nothing is known, the next one too.
    for unknown in [PacketId(B.0 + 1), PacketId(70)] {
        paths.swapped(A, unknown);
        paths.swapped(unknown, A);
    }
    assert!(paths.is_on(A, 9));
}

/// A walk begins at the host that made the packet.
#[test]
fn paths__begin_at_their_own_host() {
    let network = network();
    let from = |host: u32| {
        let mut paths = ListedPaths::new(&network);
        paths.made(B, HostId(host), 0);
        let links = network.path_links(HostId(1), HostId(3), 0);
        links.iter().filter_map(|link| paths.passes(B, *link, HostId(3))).collect::<Vec<_>>()
    };
    assert_eq!(from(1), Vec::<String>::new());
    assert_one(&from(2), "from host 2 to host 3 took a path that is none of theirs");
}

/// Two packets of one flow and size may be on different paths: then their walks are exchanged. Two
/// of unlike size are exchanged on one path, too.
#[test]
fn paths__like_packets_exchange_their_walks() {
    // Size of the second packet, path of the packet found in the first slot, whether it is another.
    for (size, path, is_exchanged) in
        [(1500, 5, false), (1500, 9, true), (900, 5, true), (900, 9, true)]
    {
        let mut run = Watched::drop_tail();
        let (first, second) = (run.make(), run.make_of(Class::DATA, size));
        let mut paths = ListedPaths::new(&run.network);
        paths.made(first, HostId(0), 5);
        paths.made(second, HostId(2), path);
        run.checks.listed_paths = Some(paths);
        let mut found = run.packets[second.index()];
        found.path = path;
        run.checks.may_have_swapped(first, &found, second);
        let walks = run.checks.listed_paths.as_mut().expect("set");
        let links = run.network.path_links(HostId(0), HostId(1), 0);
        // The walk of host 0 is in the first slot, unless the two were exchanged.
        let of_first = links.iter().filter_map(|link| walks.passes(first, *link, HostId(1)));
        assert_eq!(of_first.count(), usize::from(is_exchanged), "{size} B, path {path}");
    }
}

/// An arrival of 2,500 bytes takes the slot of a waiting packet of 1,500: sizes and walks go with
/// the packets, and places stay with the slots.
#[test]
fn queues__packets_that_exchange_slots_keep_their_places() {
    let limit = Limit::Bytes(Bytes::new(2_000));
    let mut run = Watched::new(QueueSpec::DropTail { limit });
    let port = run.port_to(1);
    run.fill(1, Class::DATA, 1500);
    let (waits, arrival) = (PacketId(0), run.make_of(Class::DATA, 2500));
    let node = run.network.link(port).from;
    run.checks.packets[arrival.index()].as_mut().expect("made").place = Place::At(node);
    let mut paths = ListedPaths::new(&run.network);
    paths.made(waits, HostId(0), 5);
    paths.made(arrival, HostId(0), 9);
    run.checks.listed_paths = Some(paths);

    let lane_excess =
        |run: &Watched| run.checks.ports[port.index()].excess(0, InService::default());
    assert_eq!(lane_excess(&run), None);
    let moved = run.packets[waits.index()];
    run.checks.may_have_swapped(arrival, &moved, waits);
    let known = |id: PacketId| {
        let packet = run.checks.packets[id.index()].expect("known");
        (packet.wire_bytes, packet.place)
    };
    assert_eq!(known(arrival), (1500, Place::At(node)));
    assert_eq!(known(waits), (2500, Place::Waits(port, 0)));
    assert!(lane_excess(&run).is_some_and(|excess| excess.contains("holds 2500")));
    let paths = run.checks.listed_paths.as_ref().expect("set");
    assert!(paths.is_on(waits, 9) && paths.is_on(arrival, 5));
}

/// Framing takes its time on the link.
#[test]
fn links__framing_counts_against_the_rate() {
    let links = ClosLinks::uniform(RATE, US);
    let network = ClosShape::star(3).build(&links, Bytes::new(1500), Bytes::new(38));
    let limit = Limit::Packets(2);
    for (bytes, violations) in [(1538, 0), (1537, 1)] {
        let mut checks = Checks::of(&network, QueueSpec::DropTail { limit }, &[], 0);
        let until = Instant::ZERO + RATE.transmission_time(Bytes::new(bytes));
        checks.occupies(network.nic(HostId(0)), 1500, Instant::ZERO, until);
        let end = Ending { at: until, waiting: vec![0; network.links.len()], alive: 0, flows: &[] };
        let mut findings = Findings::default();
        checks.conclude(&end, &mut findings);
        assert_eq!(findings.violations.len(), violations, "{:?}", findings.violations);
    }
}

/// When a link is cut, the port that sends on it resumes at once, and frames under way are lost.
#[test]
fn pauses__a_cut_link_resumes_now_and_loses_frames() {
    let at = |us| Instant::ZERO + Duration::from_micros(us);
    let mut port = super::super::pauses::PauseCheck::default();
    port.expect(at(1), Class::DATA, true);
    assert_eq!(port.arrives(at(1), Class::DATA, true), None);
    assert!(!port.may_send(Class::DATA, at(2)));
    port.expect(at(4), Class::CONTROL, true);
    port.cut(at(3));
    assert_eq!(port.arrives(at(3), Class::DATA, false), None, "due now");
    assert!(port.may_send(Class::DATA, at(3)));
    let lost = port.arrives(at(4), Class::CONTROL, true);
    assert!(lost.is_some_and(|wrong| wrong.contains("no such frame was due")), "{lost:?}");
}

/// Pauses end when either direction of the link is cut; while the way back is cut, none can be sent.
#[test]
fn pauses__end_when_a_link_is_cut() {
    let mut ingress = super::super::pauses::IngressCheck::default();
    *ingress.waiting_of(Class::DATA) = 3_001;
    assert!(ingress.is_unpaused_above(Class::DATA, 3_000));
    ingress.set_pausing(Class::DATA, true);
    assert!(!ingress.is_unpaused_above(Class::DATA, 3_000));
    ingress.cut(false, true);
    assert!(ingress.is_unpaused_above(Class::DATA, 3_000), "the pause is over");
    ingress.cut(true, true);
    assert!(!ingress.is_unpaused_above(Class::DATA, 3_000), "no pause frame arrives");
    ingress.cut(true, false);
    assert!(ingress.is_unpaused_above(Class::DATA, 3_000));
}
