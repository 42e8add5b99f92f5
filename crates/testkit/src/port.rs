//! An output port: an ideal queue, control first, and perhaps a controller.

use crate::Line;
use punctual_core::{Class, Instant, Packet, PortId, PortView};
use std::collections::VecDeque;

/// Something a port may send next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    Packet(Packet),
    /// Ask this flow's sender.
    Poll(usize),
}

pub(crate) struct Port<C> {
    pub(crate) controller: Option<C>,
    pub(crate) controller_timer: Option<Instant>,
    pub(crate) control: VecDeque<Turn>,
    pub(crate) other: VecDeque<Turn>,
    pub(crate) queue_bytes: u64,
    pub(crate) queue_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) busy: bool,
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
            busy: false,
        }
    }

    pub(crate) fn queue(&mut self, class: Class) -> &mut VecDeque<Turn> {
        if class == Class::CONTROL { &mut self.control } else { &mut self.other }
    }

    /// The next to send: control first.
    pub(crate) fn pop(&mut self) -> Option<Turn> {
        self.control.pop_front().or_else(|| self.other.pop_front())
    }

    /// This port, the one of that number, as its controller sees it.
    pub(crate) fn view(&self, port: usize, now: Instant, line: &Line) -> PortView {
        PortView {
            port: PortId::from(port),
            now,
            rate: line.rate,
            framing: line.framing,
            queue_bytes: self.queue_bytes,
            queue_packets: self.queue_packets,
            sent_bytes: self.sent_bytes,
        }
    }
}
