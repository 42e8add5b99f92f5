//! Checks of pause frames: each takes its time on the link and arrives once; paused classes wait.

use punctual_core::{Class, Instant, PortId};
use std::collections::VecDeque;

/// The pauses of one port, as its neighbour's frames ask for them.
#[derive(Debug, Clone, Default)]
pub(super) struct PauseCheck {
    /// Since when each class is paused.
    since: [Option<Instant>; Class::COUNT],
    /// Frames on their way to it: when each arrives, its class, and whether it pauses or resumes.
    frames: VecDeque<(Instant, Class, bool)>,
}

impl PauseCheck {
    /// A frame was sent that will arrive at `arrives`.
    pub(super) fn expect(&mut self, arrives: Instant, class: Class, is_pause: bool) {
        self.frames.push_back((arrives, class, is_pause));
    }

    /// The link is cut: no frame arrives any more, and every pause ends now.
    pub(super) fn cut(&mut self, now: Instant) {
        let paused = (0..Class::COUNT as u8).map(Class).zip(&self.since);
        let ends = paused.filter(|(_, since)| since.is_some());
        self.frames = ends.map(|(class, _)| (now, class, false)).collect();
    }

    /// A frame arrives. Returns what is wrong with it, if anything.
    pub(super) fn arrives(
        &mut self,
        now: Instant,
        class: Class,
        is_pause: bool,
    ) -> Option<&'static str> {
        let expected = self.frames.pop_front();
        let since = &mut self.since[usize::from(class.0) % Class::COUNT];
        let was_paused = since.is_some();
        *since = is_pause.then_some(now);
        if expected != Some((now, class, is_pause)) {
            return Some("applied a pause or resume, but no such frame was due now");
        }
        (was_paused == is_pause)
            .then_some("received a pause while paused, or a resume while not paused")
    }

    /// Whether a packet of a class may start at this time.
    pub(super) fn may_send(&self, class: Class, from: Instant) -> bool {
        // A pause that arrives at the instant at which a packet starts does not stop it.
        self.since[usize::from(class.0) % Class::COUNT].is_none_or(|since| from <= since)
    }
}

/// The shared buffer of one switch.
#[derive(Debug, Clone, Default)]
pub(super) struct BufferCheck {
    /// Bytes that wait in the switch.
    pub(super) bytes: u64,
}

/// What came over one link and waits in the switch at its end, and whether that link is paused.
#[derive(Debug, Clone, Default)]
pub(super) struct IngressCheck {
    /// Bytes by class.
    waiting: [u64; Class::COUNT],
    /// By class: whether a pause was sent and no resume since.
    is_pausing: [bool; Class::COUNT],
    /// Whether the reverse link is cut, so that no pause frame reaches the sender.
    is_unreachable: bool,
}

impl IngressCheck {
    /// The link, or the reverse link (`is_way_back`), is cut or works again.
    pub(super) fn cut(&mut self, is_way_back: bool, is_cut: bool) {
        if is_cut {
            self.is_pausing = [false; Class::COUNT];
        }
        if is_way_back {
            self.is_unreachable = is_cut;
        }
    }

    /// Bytes of a class that wait, to be changed.
    pub(super) fn waiting_of(&mut self, class: Class) -> &mut u64 {
        &mut self.waiting[usize::from(class.0) % Class::COUNT]
    }

    pub(super) fn set_pausing(&mut self, class: Class, is_pausing: bool) {
        self.is_pausing[usize::from(class.0) % Class::COUNT] = is_pausing;
    }

    /// Whether a class exceeds the pause threshold although its link can be paused and is not.
    pub(super) fn is_unpaused_above(&self, class: Class, pause_above: u64) -> bool {
        let class = usize::from(class.0) % Class::COUNT;
        self.waiting[class] > pause_above && !self.is_pausing[class] && !self.is_unreachable
    }
}

/// The limits that a lossless switch must keep, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct BufferLimits {
    pub(super) buffer: u64,
    pub(super) pause_above: u64,
}

/// A link into a switch, named by the port that sends on it, and a class.
pub(super) type Ingress = (PortId, Class);
