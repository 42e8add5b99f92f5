//! Configurations that change while packets are in the switch.

use crate::common::*;
use proptest::prelude::*;
use punctual_core::{Class, Duration, HostId};
use punctual_switch::{Departed, MemoryIo, ReloadError, Switch, SwitchConfig};

/// Racks of hosts under spines.
#[derive(Clone, Debug)]
struct Shape {
    /// Host n is in rack n modulo 2.
    hosts: Vec<u8>,
    spines: Vec<u8>,
    rate: &'static str,
    queue: String,
    more: &'static str,
}

impl Shape {
    fn new(hosts: &[u8], spines: &[u8]) -> Shape {
        let queue = drop_tail(100);
        let (hosts, spines) = (hosts.to_vec(), spines.to_vec());
        Shape { hosts, spines, rate: "100Mbps", queue, more: "" }
    }

    fn config(&self) -> SwitchConfig {
        let Shape { rate, queue, more, .. } = self;
        let mut text = format!("queue = {queue}\n{more}\n");
        for rack in 0..2 {
            text += &format!("[[switch]]\nname = \"rack {rack}\"\n");
        }
        for spine in &self.spines {
            text += &format!("[[switch]]\nname = \"spine {spine}\"\n");
            for rack in 0..2 {
                text += &format!(
                    "[[link]]\nbetween = [\"rack {rack}\", \"spine {spine}\"]\nrate = \"{rate}\"\n\
                     delay = \"1us\"\n"
                );
            }
        }
        for h in &self.hosts {
            text += &format!(
                "[[host]]\nname = \"h{h}\"\ninterface = \"v{h}\"\nmac = \"02:00:00:00:00:{:02x}\"\n\
                 [[link]]\nbetween = [\"h{h}\", \"rack {}\"]\nrate = \"{rate}\"\ndelay = \"1us\"\n",
                h + 1,
                h % 2
            );
        }
        SwitchConfig::parse("test.toml", &text).expect("valid")
    }

    fn switch(&self) -> Switch<MemoryIo> {
        let mut io = MemoryIo::new(self.hosts.len());
        io.names = self.hosts.iter().map(|h| format!("v{h}")).collect();
        Switch::new(self.config(), io)
    }

    /// A frame from one host to another arrives at the switch.
    fn arrive(&self, switch: &mut Switch<MemoryIo>, from: u8, to: u8, at_us: u64) {
        let host = self.hosts.iter().position(|h| *h == from).expect("a host");
        let at = crate::common::at_us(at_us);
        switch.io().arrive(HostId::from(host), at, plain(&outer(from, to, Class::DATA, 0), 1500));
    }
}

fn drop_tail(packets: u32) -> String {
    format!("{{ kind = \"drop-tail\", limit = \"{packets}packets\" }}")
}

/// Frames that each host has received.
fn received(departed: &[Departed], to: u8) -> usize {
    departed.iter().filter(|d| d.frame[..6] == mac(to)).count()
}

/// What has become of packets at all ports: drops, losses, unroutable.
fn fates(switch: &mut Switch<MemoryIo>) -> (u64, u64, u64) {
    let report = switch.report();
    let counters = report.ports.iter().map(|port| port.counters);
    counters.fold((0, 0, 0), |(d, l, u), c| (d + c.drops, l + c.losses, u + c.unroutable))
}

#[test]
fn reload__a_new_rate_holds_from_the_next_packet_on() {
    let old = Shape::new(&[0, 1], &[0]);
    let mut switch = old.switch();
    for _ in 0..10 {
        old.arrive(&mut switch, 0, 1, 1);
    }
    let before = run_until(&mut switch, 1000);
    let new = Shape { rate: "10Mbps", ..old };
    switch.reload(new.config()).expect("it is taken");
    let after = run_until(&mut switch, 60_000);
    assert_eq!(before.len() + after.len(), 10);
    assert!(before.len() >= 3, "at 1 ms, 123 us after the other: {}", before.len());
    // The packets that had left the host's link before the change follow each other as they did, the
    // others every 1,230 us.
    let gaps = after.windows(2).map(|pair| pair[1].at.saturating_since(pair[0].at));
    let slow = Duration::from_nanos(1_230_400);
    let apart = gaps.filter(|gap| *gap + Duration::from_micros(2) >= slow).count();
    assert!(apart >= 3, "{after:?}");
    assert_eq!(fates(&mut switch), (0, 0, 0));
    assert_eq!(switch.report().reloads, 1);
}

#[test]
fn reload__packets_wait_on_under_another_discipline() {
    let old = Shape::new(&[0, 1, 2, 3, 4, 5, 6, 7, 8], &[]);
    let old = Shape { hosts: old.hosts.iter().map(|h| h * 2).collect(), ..old };
    // Eight hosts of one rack send to host 0 at once: one packet is in service, seven wait.
    let start = |switch: &mut Switch<MemoryIo>| {
        for from in 1..9 {
            old.arrive(switch, from * 2, 0, 1);
        }
        run_until(switch, 150);
    };
    for (queue, arrive, drops) in [
        (drop_tail(8), 8, 0),
        // A queue of four holds the packet in service and three more.
        (drop_tail(4), 4, 4),
        ("{ kind = \"ecn\", limit = \"8packets\", mark_above = \"2packets\" }".into(), 8, 0),
        ("{ kind = \"priority\", limit = \"8packets\" }".into(), 8, 0),
        (
            "{ kind = \"fair-classes\", trim_data = \"8packets\", trim_headers = \"8packets\", \
          rest = \"8packets\" }"
                .into(),
            8,
            0,
        ),
    ] {
        let mut switch = old.switch();
        start(&mut switch);
        let new = Shape { queue: queue.clone(), ..old.clone() };
        switch.reload(new.config()).expect("it is taken");
        let departed = run_until(&mut switch, 3000);
        assert_eq!((departed.len(), fates(&mut switch).0), (arrive, drops), "{queue}");
        assert_eq!(switch.fabric().packets(), 0);
    }
}

#[test]
fn reload__hosts_come_and_go_while_others_send() {
    let old = Shape::new(&[0, 1, 3], &[0, 1]);
    let mut switch = old.switch();
    for _ in 0..5 {
        old.arrive(&mut switch, 0, 1, 1);
        old.arrive(&mut switch, 0, 3, 1);
    }
    let mut departed = run_until(&mut switch, 400);
    // Host 3 goes; hosts 5 and 7 come, before the others: every number changes.
    let new = Shape { hosts: vec![7, 5, 0, 1], ..old.clone() };
    switch.reload(new.config()).expect("it is taken");
    let names: Vec<String> = switch.io().names.clone();
    assert_eq!(names, ["v7", "v5", "v0", "v1"]);
    new.arrive(&mut switch, 7, 0, 401);
    new.arrive(&mut switch, 0, 5, 401);
    // Host 3 is unknown: a frame to it goes to everybody else.
    new.arrive(&mut switch, 1, 3, 401);
    departed.extend(run_until(&mut switch, 5000));
    assert_eq!((received(&departed, 1), received(&departed, 0), received(&departed, 5)), (5, 1, 1));
    let lost = switch.report().lost_at_reload;
    let (drops, _, unroutable) = fates(&mut switch);
    let sent_to_3 = received(&departed, 3) as u64;
    // Five packets were for host 3: some had arrived, some were on its link, some on the way. Three
    // more are the copies of the frame that came later.
    assert_eq!(sent_to_3 - 3 + lost + unroutable, 5, "{lost} lost, {unroutable} unroutable");
    assert!(unroutable > 0);
    assert_eq!((drops, switch.fabric().packets()), (0, 0));
}

#[test]
fn reload__packets_without_a_route_stay_so_through_further_reloads() {
    let trim = "{ kind = \"trim\", data = \"2packets\", headers = \"2packets\" }";
    for queue in [drop_tail(100), trim.into()] {
        let old = Shape { queue, ..Shape::new(&[0, 1, 2, 3], &[0]) };
        let mut switch = old.switch();
        for _ in 0..5 {
            old.arrive(&mut switch, 0, 3, 1);
            old.arrive(&mut switch, 2, 3, 1);
        }
        let before = run_until(&mut switch, 200).len() as u64;
        // Host 3 goes, and nothing changes after that but the queues.
        let new = Shape { hosts: vec![0, 1, 2], ..old.clone() };
        for queue in [&old.queue, &drop_tail(50), &old.queue, &old.queue] {
            let new = Shape { queue: queue.clone(), ..new.clone() };
            switch.reload(new.config()).expect("it is taken");
        }
        let after = run_until(&mut switch, 5000);
        let lost = switch.report().lost_at_reload;
        let (drops, _, unroutable) = fates(&mut switch);
        let returned = after.len() as u64;
        assert_eq!(before + returned + lost + drops + unroutable, 10);
        assert!(unroutable > 0, "{unroutable}");
        assert_eq!(switch.fabric().packets(), 0);
    }
}

#[test]
fn reload__routes_change_under_way() {
    let old = Shape::new(&[0, 1, 2, 3], &[0, 1, 2, 3]);
    let mut switch = old.switch();
    let mut departed = Vec::new();
    for round in 0..20 {
        for from in [0, 2] {
            for port in 0..8u16 {
                let mut outer = outer(from, from + 1, Class::DATA, 0);
                outer.source_port = 1000 + port;
                let at = at_us(1 + round * 1000);
                switch.io().arrive(HostId(from.into()), at, plain(&outer, 1500));
            }
        }
        departed.extend(run_until(&mut switch, round * 1000 + 400));
        // One spine after the other goes and comes back.
        let spines = (0..4).filter(|spine| u64::from(*spine) != round % 5).collect();
        switch.reload(Shape { spines, ..old.clone() }.config()).expect("it is taken");
        departed.extend(run_until(&mut switch, round * 1000 + 1000));
    }
    departed.extend(run_until(&mut switch, 30_000));
    let lost = switch.report().lost_at_reload;
    let (drops, losses, unroutable) = fates(&mut switch);
    assert_eq!(
        departed.len() as u64 + lost + unroutable,
        320,
        "{lost} lost, {unroutable} without way"
    );
    assert!(lost > 0 && departed.len() > 250, "{} arrived", departed.len());
    assert_eq!((drops, losses, switch.fabric().packets()), (0, 0, 0));
    assert_eq!(switch.report().reloads, 20);
}

#[test]
fn reload__what_cannot_change_is_refused_and_the_old_configuration_goes_on() {
    let old = Shape::new(&[0, 1], &[0]);
    let mut switch = old.switch();
    old.arrive(&mut switch, 0, 1, 1);
    run_until(&mut switch, 10);
    for more in ["mtu = \"9000B\"", "framing = \"20B\""] {
        let error = switch.reload(Shape { more, ..old.clone() }.config()).expect_err("refused");
        assert!(matches!(error, ReloadError::Fixed(_)), "{error}");
        let report = switch.report();
        assert_eq!(report.reload_error, Some(error.to_string()));
        assert!(report.table().contains("refused"), "{}", report.table());
    }
    assert_eq!(run_until(&mut switch, 1000).len(), 1);
    switch.reload(old.config()).expect("it is taken");
    assert_eq!(switch.report().reload_error, None);
}

#[test]
fn reload__controllers_go_on_where_nothing_changed_for_them() {
    let old = Shape { more: "transports = [\"d3\"]", ..Shape::new(&[0, 1], &[0]) };
    let mut switch = old.switch();
    let request = crate::controllers::any_d3_request(&outer(1, 0, Class::DATA, 0), 7);
    switch.io().arrive(HostId(1), at_us(1), request);
    run_until(&mut switch, 2000);
    let states = |switch: &Switch<MemoryIo>| {
        switch.fabric().controller_states().map(|s| format!("{s:?}")).collect::<Vec<_>>()
    };
    let before = states(&switch);
    switch.reload(Shape { queue: drop_tail(7), ..old.clone() }.config()).expect("it is taken");
    assert_eq!(states(&switch), before);
    // At another rate controllers begin anew.
    switch.reload(Shape { rate: "50Mbps", ..old.clone() }.config()).expect("it is taken");
    assert_eq!(states(&switch).len(), before.len());
    assert_ne!(states(&switch), before);
    // Without the transport there are none, and its packets pass as others do.
    switch.reload(Shape { more: "", ..old }.config()).expect("it is taken");
    assert_eq!(states(&switch).len(), 0);
}

#[test]
fn loss__is_injected_and_counted() {
    let mut text = String::from("seed = 3\n[[switch]]\nname = \"s\"\n");
    for (h, more) in [(0, "loss = 0.1"), (1, ""), (2, "down = true")] {
        text += &format!(
            "[[host]]\nname = \"h{h}\"\ninterface = \"v{h}\"\nmac = \"02:00:00:00:00:{:02x}\"\n\
             [[link]]\nbetween = [\"h{h}\", \"s\"]\nrate = \"100Mbps\"\ndelay = \"1us\"\n{more}\n",
            h + 1
        );
    }
    let config = SwitchConfig::parse("test.toml", &text).expect("valid");
    let mut switch = Switch::new(config, MemoryIo::new(3));
    for n in 0..1000 {
        let frame = |to| plain(&outer(0, to, Class::DATA, 0), 500);
        switch.io().arrive(HostId(0), at_us(1 + n * 100), frame(if n % 10 == 0 { 2 } else { 1 }));
    }
    let departed = run_until(&mut switch, 110_000);
    let (_, losses, _) = fates(&mut switch);
    assert_eq!(departed.len() as u64 + losses, 1000);
    assert_eq!(received(&departed, 2), 0, "its link is cut");
    // Of 1,000 packets 100 ± 28 are lost on the first link (three standard deviations), and the 90
    // or so that are left of those for host 2 on the last.
    assert!((150..240).contains(&losses), "{losses}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(punctual_testkit::cases(32)))]

    /// Whatever comes and goes: every packet arrives, is dropped, or is lost for a counted reason.
    #[test]
    fn reload__accounts_for_every_packet(
        steps in prop::collection::vec(
            (1u8..16, 1u8..8, 0usize..3, 0usize..3, prop::collection::vec((0u8..4, 0u8..4), 0..40)),
            1..12,
        ),
    ) {
        let all = Shape::new(&[0, 1, 2, 3], &[0, 1, 2]);
        let (mut shape, mut switch) = (all.clone(), all.switch());
        let (mut sent, mut arrived, mut now) = (0u64, 0u64, 0);
        for (hosts, spines, rate, queue, frames) in steps {
            for (from, to) in frames {
                if from != to && shape.hosts.contains(&from) && shape.hosts.contains(&to) {
                    shape.arrive(&mut switch, from, to, now + 1);
                    sent += 1;
                }
            }
            arrived += run_until(&mut switch, now + 500).len() as u64;
            let hosts: Vec<u8> = (0..4).filter(|h| hosts >> h & 1 == 1).collect();
            let spines: Vec<u8> = (0..3).filter(|s| spines >> s & 1 == 1).collect();
            if hosts.len() >= 2 {
                let rate = ["100Mbps", "50Mbps", "1Gbps"][rate];
                let queue = match queue {
                    0 => drop_tail(100),
                    1 => drop_tail(3),
                    _ => "{ kind = \"trim\", data = \"4packets\", headers = \"4packets\" }".into(),
                };
                shape = Shape { hosts, spines, rate, queue, more: "" };
                switch.reload(shape.config()).expect("it is taken");
            }
            now += 500;
        }
        arrived += run_until(&mut switch, now + 50_000).len() as u64;
        // A removed port takes its counters with it, but not its packets: drops are counted below
        // only as long as the ports exist, so the sum may fall short, and never exceeds.
        let report = switch.report();
        let (drops, losses, unroutable) = fates(&mut switch);
        let known = arrived + drops + losses + unroutable + report.lost_at_reload;
        prop_assert!(known <= sent, "{known} of {sent}");
        prop_assert_eq!(switch.fabric().packets(), 0);
    }
}
