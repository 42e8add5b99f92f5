//! An output port: an unbounded queue with control packets first, and an optional controller.

use crate::PairPath;
use punctual_core::{Class, Instant, Packet, PortId, PortView};
use std::collections::VecDeque;

/// What a port sends next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NextSend {
    Packet(Packet),
    /// The packet that this flow's sender returns when polled.
    Poll(usize),
}

pub(crate) struct Port<C> {
    pub(crate) controller: Option<C>,
    pub(crate) controller_timer: Option<Instant>,
    pub(crate) control: VecDeque<NextSend>,
    pub(crate) other: VecDeque<NextSend>,
    pub(crate) queue_bytes: u64,
    pub(crate) queue_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) is_busy: bool,
}

impl<C> Port<C> {
    pub(crate) fn new(controller: Option<C>) -> Self {
        Port {
            controller,
            controller_timer: None,
            control: VecDeque::new(),
            other: VecDeque::new(),
            queue_bytes: 0,
            queue_packets: 0,
            sent_bytes: 0,
            is_busy: false,
        }
    }

    pub(crate) fn queue(&mut self, class: Class) -> &mut VecDeque<NextSend> {
        if class == Class::CONTROL { &mut self.control } else { &mut self.other }
    }

    /// Removes what to send next: control packets first.
    pub(crate) fn pop(&mut self) -> Option<NextSend> {
        self.control.pop_front().or_else(|| self.other.pop_front())
    }

    /// The state of this port, number `port`, as its controller sees it.
    pub(crate) fn view(&self, port: usize, now: Instant, path: &PairPath) -> PortView {
        PortView {
            port: PortId::from(port),
            now,
            rate: path.rate,
            framing: path.framing,
            queue_bytes: self.queue_bytes,
            queue_packets: self.queue_packets,
            sent_bytes: self.sent_bytes,
        }
    }
}
