//! Regular multi-rooted trees: star, leaf–spine and fat tree. The next hop is computed, not
//! looked up, so that routing for thousands of hosts stays in the CPU cache.

use crate::network::{Link, Network, Routing, Tier};
use punctual_core::{Bytes, Duration, HostId, NodeId, Packet, PacketFlags, PortId, Rate};
use std::hint::select_unpredictable;

/// The shape of a regular tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosShape {
    /// Hosts per rack.
    pub hosts_per_rack: u32,
    /// Racks per pod: 1 with one tier of switches, the number of racks with two.
    pub racks_per_pod: u32,
    /// Number of pods; 1 with fewer than three tiers.
    pub pods: u32,
    /// Uplinks of each rack switch, one to each switch of the tier above; 0 for a star.
    pub rack_uplinks: u32,
    /// Uplinks of each aggregation switch; 0 with fewer than three tiers.
    pub pod_uplinks: u32,
}

/// Rates and delays of a regular tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosLinks {
    /// Between hosts and rack switches.
    pub host_rate: Rate,
    /// Between rack switches and the tier above.
    pub rack_rate: Rate,
    /// Between aggregation switches and the core.
    pub pod_rate: Rate,
    /// Propagation between hosts and rack switches.
    pub host_delay: Duration,
    /// Propagation between rack switches and the tier above.
    pub rack_delay: Duration,
    /// Propagation between aggregation switches and the core.
    pub pod_delay: Duration,
    /// Processing delay of a switch per packet.
    pub processing: Duration,
}

impl ClosLinks {
    /// One rate and one delay for every link, and no processing delay.
    pub fn uniform(rate: Rate, delay: Duration) -> Self {
        ClosLinks {
            host_rate: rate,
            rack_rate: rate,
            pod_rate: rate,
            host_delay: delay,
            rack_delay: delay,
            pod_delay: delay,
            processing: Duration::ZERO,
        }
    }
}

/// Computed routes of a regular tree.
#[derive(Clone, Debug)]
pub(crate) struct Clos {
    shape: ClosShape,
    /// Number of hosts; the first switch has this node id.
    hosts: u32,
    /// Indexed by node id minus the number of hosts.
    switches: Vec<SwitchPlace>,
}

/// A switch's ports and the hosts below it. Hosts are numbered from left to right, so the hosts
/// below a switch, and below each of its downlinks, are a range.
#[derive(Clone, Copy, Debug)]
struct SwitchPlace {
    /// 2^40 divided by the hosts below a downlink, rounded up: replaces a division.
    ports_per_host: u64,
    first_port: u32,
    first_host: u32,
    hosts_below: u32,
    /// Number of downlinks; the uplinks follow them.
    down: u16,
    level: Level,
    /// Bit position of this switch's uplink choice in `Packet::path`.
    digit_shift: u8,
}

impl SwitchPlace {
    /// The downlink to the host `offset` places after the first one below this switch. The result
    /// means nothing if the host is not below it.
    #[inline]
    fn port_down(&self, offset: u32) -> u32 {
        (u64::from(offset).wrapping_mul(self.ports_per_host) >> 40) as u32
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Level {
    Rack,
    Aggregation,
    Top,
}

impl ClosShape {
    /// A star: one switch.
    pub fn star(hosts: u32) -> Self {
        ClosShape {
            hosts_per_rack: hosts,
            racks_per_pod: 1,
            pods: 1,
            rack_uplinks: 0,
            pod_uplinks: 0,
        }
    }

    /// A leaf–spine network: every rack switch has a link to every spine.
    pub fn leaf_spine(racks: u32, hosts_per_rack: u32, spines: u32) -> Self {
        ClosShape {
            hosts_per_rack,
            racks_per_pod: racks,
            pods: 1,
            rack_uplinks: spines,
            pod_uplinks: 0,
        }
    }

    /// A k-ary fat tree: k pods of k/2 racks, with `oversubscription` × k/2 hosts per rack.
    pub fn fat_tree(k: u32, oversubscription: u32) -> Self {
        ClosShape {
            hosts_per_rack: k / 2 * oversubscription,
            racks_per_pod: k / 2,
            pods: k,
            rack_uplinks: k / 2,
            pod_uplinks: k / 2,
        }
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts_per_rack * self.racks_per_pod * self.pods
    }

    fn racks(&self) -> u32 {
        self.racks_per_pod * self.pods
    }

    fn has_pods(&self) -> bool {
        self.pod_uplinks > 0
    }

    /// Builds the network.
    pub fn build(&self, links: &ClosLinks, mtu: Bytes, framing: Bytes) -> Network {
        Builder::new(*self, *links).build(mtu, framing)
    }
}

struct Builder {
    shape: ClosShape,
    rates: ClosLinks,
    links: Vec<Link>,
    names: Vec<String>,
    switches: Vec<SwitchPlace>,
}

impl Builder {
    fn new(shape: ClosShape, rates: ClosLinks) -> Self {
        Builder { shape, rates, links: Vec::new(), names: Vec::new(), switches: Vec::new() }
    }

    fn rack_node(&self, rack: u32) -> u32 {
        self.shape.hosts() + rack
    }

    /// Aggregation switch `a` of a pod; with two tiers, spine `a`.
    fn above_rack_node(&self, pod: u32, a: u32) -> u32 {
        self.shape.hosts() + self.shape.racks() + pod * self.shape.rack_uplinks + a
    }

    fn core_node(&self, core: u32) -> u32 {
        self.above_rack_node(self.shape.pods, 0) + core
    }

    fn link(&mut self, from: u32, to: u32, rate: Rate, delay: Duration, tier: Tier) {
        let to_switch = to >= self.shape.hosts();
        let processing = if to_switch { self.rates.processing } else { Duration::ZERO };
        self.links.push(Link {
            from: NodeId(from),
            to: NodeId(to),
            twin: PortId(u32::MAX),
            rate,
            delay: delay + processing,
            tier,
        });
    }

    /// Adds a switch with `below` hosts from `first_host` on, spread evenly over `down` ports.
    fn switch(&mut self, level: Level, first_host: u32, below: u32, down: u32, name: String) {
        let hosts_per_port = u64::from(below / down.max(1)).max(1);
        // Within these bounds `port_down` is exact and does not overflow.
        let is_exact = below < 1 << 24 && u64::from(below) * hosts_per_port < 1 << 40;
        assert!(is_exact, "a switch has more hosts below it than routing supports: {below}");
        self.names.push(name);
        self.switches.push(SwitchPlace {
            ports_per_host: (1u64 << 40).div_ceil(hosts_per_port),
            first_port: self.links.len() as u32,
            first_host,
            hosts_below: below,
            down: down as u16,
            level,
            digit_shift: if level == Level::Aggregation { DIGIT_BITS as u8 } else { 0 },
        });
    }

    fn build(mut self, mtu: Bytes, framing: Bytes) -> Network {
        let s = self.shape;
        let r = self.rates;
        let hosts_per_pod = s.hosts_per_rack * s.racks_per_pod;
        for h in 0..s.hosts() {
            self.names.push(format!("host {h}"));
            let rack = self.rack_node(h / s.hosts_per_rack);
            self.link(h, rack, r.host_rate, r.host_delay, Tier::HostUp);
        }
        for rack in 0..s.racks() {
            let (first, below) = (rack * s.hosts_per_rack, s.hosts_per_rack);
            self.switch(Level::Rack, first, below, below, format!("rack {rack}"));
            let node = self.rack_node(rack);
            for slot in 0..s.hosts_per_rack {
                let host = rack * s.hosts_per_rack + slot;
                self.link(node, host, r.host_rate, r.host_delay, Tier::HostDown);
            }
            for a in 0..s.rack_uplinks {
                let above = self.above_rack_node(rack / s.racks_per_pod, a);
                self.link(node, above, r.rack_rate, r.rack_delay, Tier::RackUp);
            }
        }
        for pod in 0..s.pods {
            for a in 0..s.rack_uplinks {
                let node = self.above_rack_node(pod, a);
                let (level, name, tier) = if s.has_pods() {
                    (Level::Aggregation, format!("pod {pod} switch {a}"), Tier::PodDown)
                } else {
                    (Level::Top, format!("spine {a}"), Tier::CoreDown)
                };
                self.switch(level, pod * hosts_per_pod, hosts_per_pod, s.racks_per_pod, name);
                for t in 0..s.racks_per_pod {
                    let rack = self.rack_node(pod * s.racks_per_pod + t);
                    self.link(node, rack, r.rack_rate, r.rack_delay, tier);
                }
                for c in 0..s.pod_uplinks {
                    let core = self.core_node(a * s.pod_uplinks + c);
                    self.link(node, core, r.pod_rate, r.pod_delay, Tier::PodUp);
                }
            }
        }
        for core in 0..s.rack_uplinks * s.pod_uplinks {
            self.switch(Level::Top, 0, s.hosts(), s.pods, format!("core {core}"));
            for pod in 0..s.pods {
                let agg = self.above_rack_node(pod, core / s.pod_uplinks);
                self.link(self.core_node(core), agg, r.pod_rate, r.pod_delay, Tier::CoreDown);
            }
        }
        let routing = Clos { shape: s, hosts: s.hosts(), switches: self.switches };
        Network::new(s.hosts(), self.names, self.links, mtu, framing, Routing::Clos(routing))
    }
}

/// Bits of `Packet::path` for each uplink choice.
const DIGIT_BITS: u32 = 16;
const DIGIT_MASK: u32 = (1 << DIGIT_BITS) - 1;

impl Clos {
    pub(crate) fn hosts_per_rack(&self) -> u32 {
        self.shape.hosts_per_rack
    }

    pub(crate) fn paths(&self, src: HostId, dst: HostId) -> u32 {
        let racks = [src, dst].map(|host| host.0 / self.shape.hosts_per_rack);
        let pods = racks.map(|rack| rack / self.shape.racks_per_pod);
        if racks[0] == racks[1] {
            1
        } else if pods[0] == pods[1] {
            self.shape.rack_uplinks
        } else {
            self.shape.rack_uplinks * self.shape.pod_uplinks
        }
    }

    /// Encodes path number `n` as the two uplink choices of a packet. The reverse path makes the
    /// same choices and has the same code.
    #[inline]
    pub(crate) fn encode(&self, n: u32) -> u32 {
        let up = self.shape.rack_uplinks;
        if n < up || n == 0 { n } else { (n % up) | ((n / up) << DIGIT_BITS) }
    }

    /// The port by which `packet` leaves switch `node`.
    #[inline]
    pub(crate) fn next_port(
        &self,
        node: NodeId,
        packet: &mut Packet,
        random: impl FnOnce(u32) -> u32,
    ) -> PortId {
        if packet.flags.has(PacketFlags::SWITCH_PATH) {
            self.choose(node, packet, random);
        }
        self.expected_port(node, packet)
    }

    /// The port by which `packet` leaves switch `node`, by the uplink choices in the packet.
    #[inline]
    pub(crate) fn expected_port(&self, node: NodeId, packet: &Packet) -> PortId {
        let switch = self.switch(node);
        let offset = packet.dst.0.wrapping_sub(switch.first_host);
        let up = u32::from(switch.down) + (packet.path >> switch.digit_shift & DIGIT_MASK);
        // A branch would be mispredicted often.
        let is_below = offset < switch.hosts_below;
        let port = select_unpredictable(is_below, switch.port_down(offset), up);
        PortId(switch.first_port + port)
    }

    #[inline]
    fn switch(&self, node: NodeId) -> &SwitchPlace {
        &self.switches[(node.0 - self.hosts) as usize]
    }

    /// Chooses the uplink of this switch and writes it into the packet, so that a reply can follow
    /// the path back.
    fn choose(&self, node: NodeId, packet: &mut Packet, random: impl FnOnce(u32) -> u32) {
        let (choices, shift) = match self.switch(node).level {
            Level::Rack => (self.shape.rack_uplinks, 0),
            Level::Aggregation => (self.shape.pod_uplinks, DIGIT_BITS),
            Level::Top => return,
        };
        if choices > 0 {
            packet.path = packet.path & !(DIGIT_MASK << shift) | random(choices) << shift;
        }
    }
}
