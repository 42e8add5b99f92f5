//! The transports of a driver, each with its stack, its codec and its controllers.
//!
//! The sender's NIC is an output port like those of switches: explicit-rate protocols allocate its
//! rate, too. So the driver runs the transports' own controllers at each NIC.

use super::{DriverError, DriverOptions, HERE, SEGMENT_MIN};
use crate::nic::Nic;
use crate::options::IPV6_LONGER;
use punctual_core::{Bytes, Controller, ExtArena, Instant, NicInfo, Packet, PortId, TransportSet};
use punctual_transports::AnyTransport;
use punctual_wire::{AnyCodec, PacketCodec, epoch_of};
use std::ops::{Index, IndexMut};
use std::time::{SystemTime, UNIX_EPOCH};

/// A set of transports that have wire formats.
pub trait WireSet: TransportSet {
    /// Their codecs.
    type Codec: PacketCodec;

    /// The codec of this transport on interfaces of this MTU, as the transport counts it; `None` if it
    /// has no wire format. `epoch` is that of [`PdqCodec`](punctual_wire::PdqCodec).
    fn codec(&self, mtu: Bytes, epoch: u32) -> Option<Self::Codec>;
}

impl WireSet for AnyTransport {
    type Codec = AnyCodec;

    fn codec(&self, mtu: Bytes, epoch: u32) -> Option<AnyCodec> {
        Some(AnyCodec::of(self.name(), mtu)?.with_epoch(epoch))
    }
}

/// The zero of a clock that starts now, in units of 10 µs since the Unix epoch, modulo 2³².
fn epoch_now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    epoch_of(since.as_nanos() as u64)
}

/// A transport.
pub(super) struct Lane<S: WireSet> {
    pub(super) stack: S::Stack,
    pub(super) codec: S::Codec,
    pub(super) sprays: bool,
    /// What the link and the wire format add to each packet as the transport counts it.
    framing: Bytes,
    /// Its controllers, by NIC; empty if it has none.
    ports: Vec<LanePort<S::Controller>>,
}

struct LanePort<K> {
    controller: K,
    id: PortId,
    timeout: Option<Instant>,
}

impl<S: WireSet> Lane<S> {
    fn new(
        transport: &S,
        nics: &[Nic],
        options: &DriverOptions,
        is_ipv4: bool,
        ports: u32,
        epoch: u32,
    ) -> Result<Self, DriverError> {
        let refused = || DriverError::NoWireFormat(transport.name());
        let format = transport.codec(options.mtu, epoch).ok_or_else(refused)?;
        let longer = Bytes::new(u64::from(format.longer_by()));
        let framing = options.framing + longer;
        let mut mtu = options.mtu;
        if !options.has_headroom {
            mtu = mtu.saturating_sub(longer);
            if is_ipv4 && format.segment_bytes().is_some() {
                // Both ends need segments of one size, also if the sockets of one are IPv6.
                mtu = mtu.saturating_sub(IPV6_LONGER);
            }
        }
        let headers = Bytes::new(u64::from(format.headers_bytes())).saturating_sub(longer);
        let least = headers + Bytes::new(SEGMENT_MIN);
        if mtu < least {
            let missing = least.saturating_sub(mtu);
            return Err(DriverError::SmallMtu { transport: transport.name(), missing });
        }
        let codec = transport.codec(mtu, epoch).ok_or_else(refused)?;
        let nic = NicInfo { host: HERE, rate: options.rate, mtu, framing, nics: nics.len() as u32 };
        let port = |(at, nic): (usize, &Nic)| {
            let id = PortId(ports + at as u32);
            let controller = transport.controller(&nic.view(id, Instant::ZERO, framing))?;
            Some(LanePort { controller, id, timeout: None })
        };
        Ok(Lane {
            stack: transport.stack(&[nic]),
            codec,
            sprays: transport.sprays(),
            framing,
            ports: nics.iter().enumerate().filter_map(port).collect(),
        })
    }

    /// Whether ports on the path keep state of its flows.
    pub(super) fn has_ports(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Bytes by which its packets are longer on the wire than it counts.
    pub(super) fn longer_by(&self) -> u16 {
        self.codec.longer_by()
    }

    /// Shows a packet to the controller of the NIC by which it will leave. Returns when the controller
    /// wants to be called, if that has changed.
    pub(super) fn forward(
        &mut self,
        at: usize,
        nic: &Nic,
        packet: &mut Packet,
        now: Instant,
        ext: &mut ExtArena,
    ) -> Option<Instant> {
        let port = self.ports.get_mut(at)?;
        port.controller.handle_forward(packet, &nic.view(port.id, now, self.framing), ext);
        port.next()
    }

    /// Shows an answer to the controller of the NIC by which its flow's data leaves.
    pub(super) fn reverse(&mut self, at: usize, packet: &mut Packet) {
        if let Some(port) = self.ports.get_mut(at) {
            port.controller.handle_reverse(packet, port.id);
        }
    }

    /// Calls a controller whose time has come. Returns when it wants to be called again.
    pub(super) fn fire(&mut self, at: usize, nic: &Nic, now: Instant) -> Option<Instant> {
        let port = self.ports.get_mut(at)?;
        port.timeout = None;
        port.controller.handle_timeout(&nic.view(port.id, now, self.framing));
        port.next()
    }
}

impl<K: Controller> LanePort<K> {
    /// When the controller wants to be called, if it is not known yet.
    fn next(&mut self) -> Option<Instant> {
        let next = self.controller.next_timeout();
        let is_new = next != self.timeout;
        self.timeout = next;
        next.filter(|_| is_new)
    }
}

/// All transports of a driver.
pub(super) struct Lanes<S: WireSet> {
    all: Vec<Lane<S>>,
    /// By number on the wire: the place in `all`, or none.
    places: [Option<u8>; 32],
}

impl<S: WireSet> Lanes<S> {
    /// `random` makes the ids of ports differ from those of switches, and of other hosts most
    /// probably.
    pub(super) fn new(
        transports: &[S],
        nics: &[Nic],
        options: &DriverOptions,
        is_ipv4: bool,
        random: u64,
    ) -> Result<Self, DriverError> {
        let ports = 1 << 31 | random as u32 & 0x7fff_fff0;
        let epoch = epoch_now();
        let mut lanes = Lanes { all: Vec::new(), places: [None; 32] };
        for transport in transports {
            let lane = Lane::new(transport, nics, options, is_ipv4, ports, epoch)?;
            lanes.places[usize::from(lane.codec.number() & 31)] = Some(lanes.all.len() as u8);
            lanes.all.push(lane);
        }
        Ok(lanes)
    }

    /// The place of the transport with this number on the wire.
    pub(super) fn place(&self, number: u8) -> Option<u8> {
        self.places[usize::from(number & 31)]
    }

    /// The number on the wire of the first transport.
    pub(super) fn number(&self) -> u8 {
        self.all.first().map_or(0, |lane| lane.codec.number())
    }

    /// Where the fields begin that switches rewrite, in the fields of the transport with this number.
    pub(super) fn switch_fields_at(&self, number: u8) -> usize {
        let place = self.place(number);
        place.map_or(usize::MAX, |place| self[place].codec.switch_fields_at())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Lane<S>> {
        self.all.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

impl<S: WireSet> Index<u8> for Lanes<S> {
    type Output = Lane<S>;

    fn index(&self, place: u8) -> &Lane<S> {
        &self.all[usize::from(place)]
    }
}

impl<S: WireSet> IndexMut<u8> for Lanes<S> {
    fn index_mut(&mut self, place: u8) -> &mut Lane<S> {
        &mut self.all[usize::from(place)]
    }
}
