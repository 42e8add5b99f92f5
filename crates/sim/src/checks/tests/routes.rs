//! Where packets are, and the links that brought them.

use super::*;

#[test]
fn propagation__neither_early_nor_late() {
    for picos in [-1i64, 1] {
        let mut run = Watched::drop_tail();
        let id = run.at_switch();
        let now = run.checks.now;
        let at = run.send(run.port_to(1), id, now, false);
        let at = Instant::from_picos(at.as_picos().saturating_add_signed(picos));
        run.arrive(id, at);
        assert_one(&run.found(), "delivered a packet that was due at");
    }
}

#[test]
fn routing__each_port_is_at_the_node_where_the_packet_is() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    run.send(run.nic(2), id, now, false);
    assert_one(&run.found(), "arrived at another node");

    let mut run = Watched::drop_tail();
    let id = run.make();
    run.send(run.port_to(1), id, Instant::ZERO, false);
    assert_one(&run.found(), "is at another node");
}

#[test]
fn routing__packets_end_at_their_hosts() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    let at = run.send(run.port_to(2), id, now, false);
    run.arrive(id, at);
    let away = "→ host 2 is off the shortest path: a packet of flow 0 went from 1 to 2 hops from";
    assert_all(&run.found(), &["arrived at another node", away]);
}

#[test]
fn routing__no_packet_goes_back() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    let at = run.send(run.port_to(0), id, now, false);
    run.checks.event_begins(at);
    run.send(run.nic(0), id, at, false);
    assert_one(&run.found(), "a packet of flow 0 went from 1 to 2 hops from host 1");
}

/// In a leaf-spine, hosts of one rack are two hops apart, and hosts of two racks are four.
#[test]
fn routing__distances_are_those_of_the_shortest_paths() {
    let links = ClosLinks::uniform(RATE, US);
    let network = ClosShape::leaf_spine(3, 2, 2).build(&links, Bytes::new(1500), Bytes::ZERO);
    let mut distances = Distances::new(&network);
    let rack = |host: u32| network.link(network.nic(HostId(host))).to;
    let rack_size = network.rack_size().expect("racks");
    let (near, far) = (1, rack_size);
    assert_eq!(rack(0), rack(near));
    let mut to_0 = |node| distances.to(HostId(0), node);
    assert_eq!((to_0(NodeId(0)), to_0(rack(0)), to_0(NodeId(near))), (0, 1, 2));
    assert_eq!((to_0(rack(far)), to_0(NodeId(far))), (3, 4));
}

#[test]
fn routing__no_packet_arrives_by_a_link_that_is_cut() {
    for is_mended in [false, true] {
        let mut run = Watched::drop_tail();
        let id = run.at_switch();
        let (port, now) = (run.port_to(1), run.checks.now);
        // It is on the link when that is cut, and arrives only if the link works again by then.
        let at = run.send(port, id, now, false);
        run.checks.link_cut(port, true);
        if is_mended {
            run.checks.link_cut(port, false);
        }
        run.arrive(id, at);
        match is_mended {
            true => assert_eq!(run.found(), [""; 0]),
            false => assert_one(&run.found(), "delivered a packet although it is cut"),
        }
    }
}

#[test]
fn routing__a_bounced_packet_goes_to_its_sender() {
    for is_turned in [false, true] {
        let mut run = Watched::drop_tail();
        let id = run.at_switch();
        let port = run.port_to(1);
        run.queue(port, id);
        run.checks.packet_bounced(port, id);
        if is_turned {
            run.packets[id.index()].dst = HostId(0);
        }
        let now = run.checks.now;
        let back = run.port_to(0);
        let at = run.send(back, id, now, false);
        run.packets[id.index()].dst = HostId(0);
        run.arrive(id, at);
        match is_turned {
            true => assert_eq!(run.found(), [""; 0]),
            false => assert_one(&run.found(), "changed its flow, destination or size"),
        }
    }
}

#[test]
fn routing__packets_stay_as_they_are() {
    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    run.packets[id.index()].wire_bytes = 1400;
    let port = run.port_to(1);
    run.queue(port, id);
    assert_one(&run.found(), "changed its flow, destination or size");
}

#[test]
fn made__for_its_flow_s_hosts() {
    let mut run = Watched::drop_tail();
    let mut packet = Packet::new(FlowId(0), HostId(2), Header::default());
    run.checks.packet_created(PacketId(0), &packet);
    assert_one(&run.found(), "a packet of flow 0 is addressed to a wrong host");

    let mut run = Watched::drop_tail();
    packet.dst = HostId(1);
    packet.flags.set(PacketFlags::TO_SENDER);
    run.checks.packet_created(PacketId(0), &packet);
    assert_one(&run.found(), "a packet of flow 0 is addressed to a wrong host");
}

#[test]
fn made__not_in_a_slot_that_is_taken() {
    let mut run = Watched::drop_tail();
    let id = run.make();
    run.checks.packet_created(id, &run.packets[id.index()]);
    let in_all = "1 packets are in the network, but 2 were created and neither";
    assert_all(&run.found(), &["packet slot 0 was reused while its packet was alive", in_all]);
}

#[test]
fn made__before_anything_else() {
    let mut run = Watched::drop_tail();
    let packet = Packet::new(FlowId(0), HostId(1), Header::default());
    run.checks.packet_queued(run.nic(0), UNKNOWN, &packet);
    assert_one(&run.found(), "packet 7 was observed, but it was never created");
}

#[test]
fn lost__only_on_the_link_that_it_is_on() {
    let lose = |on: fn(&Watched) -> PortId, late: Duration| {
        let mut run = Watched::drop_tail();
        let id = run.at_switch();
        let now = run.checks.now;
        let at = run.send(run.port_to(1), id, now, false);
        run.checks.event_begins(at + late);
        let port = on(&run);
        run.checks.packet_lost(port, id, &run.packets[id.index()], Loss::OnLink);
        run.found()
    };
    assert_eq!(lose(|run| run.port_to(1), Duration::ZERO), [""; 0]);
    assert_one(
        &lose(|run| run.port_to(2), Duration::ZERO),
        "lost a packet that was not due at its end now",
    );
    assert_one(&lose(|run| run.port_to(1), US), "lost a packet that was not due at its end now");
}

#[test]
fn arrivals__by_a_link_and_for_the_flow_that_sent() {
    let mut run = Watched::drop_tail();
    let id = run.make();
    run.arrive(id, Instant::ZERO);
    assert_one(&run.found(), "a packet of flow 0 reached its host, but was not on a link");

    let mut run = Watched::drop_tail();
    let id = run.at_switch();
    let now = run.checks.now;
    let at = run.send(run.port_to(1), id, now, false);
    run.packets[id.index()].flow = FlowId(1);
    run.arrive(id, at);
    let became = "a packet of flow 0 arrived as one of flow 1";
    assert_all(&run.found(), &[became, "flow 1: more packets arrived or were lost than created"]);
}

/// Four links between hosts of different racks, by any spine; two within a rack.
#[test]
fn routes__distances_count_links() {
    let links = ClosLinks::uniform(RATE, US);
    let network = ClosShape::leaf_spine(3, 2, 2).build(&links, Bytes::new(1500), Bytes::ZERO);
    let mut distances = super::super::routes::Distances::new(&network);
    for (src, dst) in [(0, 5), (3, 1), (4, 2)].map(|(src, dst)| (HostId(src), HostId(dst))) {
        for path in 0..network.paths(src, dst) {
            for (passed, link) in (0..).zip(network.path_links(src, dst, path)) {
                let from = network.link(link).from;
                assert_eq!(distances.to(dst, from), 4 - passed, "from {src} to {dst}");
            }
        }
    }
    assert_eq!(distances.to(HostId(1), NodeId::from(HostId(0))), 2);
    assert_eq!(distances.to(HostId(1), NodeId::from(HostId(1))), 0);
}
