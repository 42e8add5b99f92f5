//! The sender: requests tokens, and sends a packet for each before it expires.

use super::header::{HEADER_BYTES, PhostHeader, kind};
use super::{PhostConfig, PhostHost, TokenPolicy, Waiting};
use punctual_core::{
    BitRing, Class, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx, HostId,
    Instant, Packet, PacketFlags, RetransmitCause,
};
use std::collections::VecDeque;

/// State of a pHost sender.
#[derive(Clone, Debug)]
pub struct PhostSender {
    flow: FlowId,
    receiver: HostId,
    class: Class,
    size_bytes: u64,
    /// Packets that go without tokens.
    free: u64,
    /// Packets missing at the receiver, by its last token.
    missing: u64,
    tokens: VecDeque<Token>,
    sent: BitRing,
    counts: TokenCounts,
    /// Whether it waits for the NIC.
    asked: bool,
    /// Unanswered requests in a row.
    requests: u32,
    /// When to send the next request.
    request_at: Instant,
}

/// Permission to send a packet.
#[derive(Clone, Copy, Debug)]
struct Token {
    packet: u64,
    number: u32,
    /// When it expires.
    expires: Instant,
}

/// Token counters of a flow: got = used + expired + held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Free ones, and those that came.
    pub got: u64,
    /// A packet was sent for it.
    pub used: u64,
    /// Not used in time.
    pub expired: u64,
}

/// The greatest number of doublings of the request timeout.
const DOUBLINGS_MAX: u32 = 6;

impl PhostSender {
    pub(super) fn open(flow: &FlowSpec, _: &FlowRoute, cx: &mut HostCx<'_, PhostConfig>) -> Self {
        let packets = cx.shared.packets_of(flow.size.get());
        let free = cx.config.free_of(packets, cx.shared.free_tokens);
        // PHOST-R09: flows that the free tokens are enough for go before others.
        let is_short = packets <= u64::from(cx.shared.free_tokens);
        let class = if is_short { flow.class.0 } else { flow.class.0 + 1 };
        let mut sender = PhostSender {
            flow: flow.id,
            receiver: flow.dst,
            class: Class(class.min(Class::COUNT as u8 - 1)),
            size_bytes: flow.size.get(),
            free,
            missing: packets,
            tokens: VecDeque::with_capacity(16),
            sent: BitRing::default(),
            counts: TokenCounts::default(),
            asked: false,
            requests: 0,
            request_at: cx.now,
        };
        sender.request(cx); // PHOST-R01
        let times = *cx.shared.tokens.times();
        let expires = cx.now + times.packet * free + times.token_life;
        for packet in 0..free {
            // PHOST-R02
            sender.tokens.push_back(Token { packet, number: packet as u32, expires });
        }
        sender.counts.got = free;
        sender.ask(cx);
        sender
    }

    /// Its token counters.
    pub fn counts(&self) -> TokenCounts {
        self.counts
    }

    /// Tokens that it holds, including expired ones not yet removed.
    pub fn held(&self) -> u64 {
        self.tokens.len() as u64
    }

    fn packet(&self, header: PhostHeader, payload_bytes: u64, class: Class) -> Packet {
        let mut packet = Packet::new(self.flow, self.receiver, Header::new(header));
        packet.payload_bytes = payload_bytes as u16;
        packet.wire_bytes = HEADER_BYTES + payload_bytes as u16;
        packet.class = class;
        packet.flags = PacketFlags::SWITCH_PATH; // PHOST-R11
        packet
    }

    fn request(&mut self, cx: &mut HostCx<'_, PhostConfig>) {
        let header = PhostHeader {
            size: self.size_bytes,
            missing: self.free,
            kind: kind::REQUEST,
            ..PhostHeader::default()
        };
        cx.send(self.packet(header, 0, Class::CONTROL));
        let wait = cx.config.request_timeout.saturating_mul(1 << self.requests.min(DOUBLINGS_MAX));
        self.request_at = cx.now + wait;
        cx.set_timer(self.request_at);
    }

    fn drop_expired(&mut self, now: Instant) {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.expires >= now); // PHOST-R03
        self.counts.expired += (before - self.tokens.len()) as u64;
    }

    /// Requests the NIC if it holds a token.
    fn ask(&mut self, cx: &mut HostCx<'_, PhostConfig>) {
        if !self.asked && !self.tokens.is_empty() {
            self.asked = true;
            cx.shared.waiting.push(Waiting {
                class: self.class,
                missing: self.missing,
                flow: self.flow,
            });
            // All flows of a host take turns, so they wait for one NIC, whatever their paths.
            cx.ready_on(self.class, 0);
        }
    }
}

impl Endpoint<PhostConfig> for PhostSender {
    fn gauges(&self, _: &PhostHost, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("tokens_held", self.tokens.len() as f64);
        tell("tokens_used", self.counts.used as f64);
        tell("tokens_expired", self.counts.expired as f64);
    }

    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, PhostConfig>) {
        let header: PhostHeader = packet.header.get();
        if packet.is_bounced() {
            return;
        }
        match header.kind {
            kind::ACK => {
                // It is not asked again: others must not wait for it.
                self.close(cx.shared);
                cx.clear_timer();
                cx.emit(FlowEvent::Finished); // PHOST-R10
            }
            kind::TOKEN if header.packet < cx.shared.packets_of(self.size_bytes) => {
                self.request_at = cx.now + cx.config.request_timeout;
                // A timer set for earlier is moved when it fires.
                if std::mem::take(&mut self.requests) > 0 {
                    cx.set_timer(self.request_at);
                }
                self.missing = header.missing;
                self.counts.got += 1;
                let expires = cx.now + cx.shared.tokens.times().token_life;
                let number = header.token;
                self.tokens.push_back(Token { packet: header.packet, number, expires });
                self.ask(cx);
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, PhostConfig>) {
        if cx.now < self.request_at {
            return cx.set_timer(self.request_at);
        }
        // PHOST-R10: the receiver may not know of the flow, or the sender not of its end.
        cx.emit(FlowEvent::TimedOut);
        self.requests += 1;
        self.request(cx);
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, PhostConfig>) -> Option<Packet> {
        self.asked = false;
        let is_next = cx.shared.take_turn(self.flow, cx.config.policy);
        self.drop_expired(cx.now);
        if !is_next {
            // PHOST-R04: its turn comes again after those of flows with less to send.
            self.ask(cx);
            return None;
        }
        let token = self.tokens.pop_front()?;
        self.counts.used += 1;
        if !self.sent.insert(token.packet) {
            // The receiver issues a token again when the packet did not come in time.
            cx.emit(FlowEvent::Retransmitted(RetransmitCause::Timeout));
        }
        let payload_bytes = cx.shared.bytes_in(token.packet, self.size_bytes).unwrap_or(0);
        self.ask(cx);
        let header = PhostHeader {
            size: self.size_bytes,
            packet: token.packet,
            missing: self.free,
            token: token.number,
            kind: kind::DATA,
            ..PhostHeader::default()
        };
        Some(self.packet(header, payload_bytes, self.class))
    }

    fn close(&mut self, host: &mut PhostHost) {
        host.waiting.retain(|waiting| waiting.flow != self.flow);
    }
}

impl PhostHost {
    /// Removes a flow from those that wait for the NIC; returns whether it may send.
    fn take_turn(&mut self, flow: FlowId, policy: TokenPolicy) -> bool {
        let Some(place) = self.waiting.iter().position(|w| w.flow == flow) else { return true };
        let own = self.waiting.swap_remove(place);
        // Only those of its class are sure to be asked as well.
        let is_better = |other: &Waiting| other.class == own.class && other.missing < own.missing;
        policy == TokenPolicy::Fair || !self.waiting.iter().any(is_better)
    }
}
