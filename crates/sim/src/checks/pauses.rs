//! What holds of pause frames: they take their time, arrive once, and what is paused waits.

use punctual_core::{Class, Instant, PortId};
use std::collections::VecDeque;

/// Pauses of one port.
#[derive(Debug, Clone, Default)]
pub(super) struct PauseCheck {
    /// Since when each class is paused.
    since: [Option<Instant>; Class::COUNT],
    /// Frames on their way to it, and when they arrive.
    frames: VecDeque<(Instant, Class, bool)>,
}

impl PauseCheck {
    /// A frame is on its way.
    pub(super) fn expect(&mut self, arrives: Instant, class: Class, is_pause: bool) {
        self.frames.push_back((arrives, class, is_pause));
    }

    /// The link is cut: no frame arrives any more, and every pause ends now.
    pub(super) fn cut(&mut self, now: Instant) {
        let paused = (0..Class::COUNT as u8).map(Class).zip(&self.since);
        let ends = paused.filter(|(_, since)| since.is_some());
        self.frames = ends.map(|(class, _)| (now, class, false)).collect();
    }

    /// A frame arrives. What is wrong with it, if anything.
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
            return Some("acts on a pause frame that was not sent to it, or not for now");
        }
        (was_paused == is_pause).then_some("is told to do what it does already")
    }

    /// Whether a packet of a class may be begun at this time.
    pub(super) fn may_send(&self, class: Class, from: Instant) -> bool {
        // A frame that comes at the instant at which a packet begins comes too late for it.
        self.since[usize::from(class.0) % Class::COUNT].is_none_or(|since| from <= since)
    }
}

/// The shared buffer of one switch, and what of it each link has filled.
#[derive(Debug, Clone, Default)]
pub(super) struct BufferCheck {
    /// Bytes that wait in the switch.
    pub(super) bytes: u64,
}

/// What waits in a switch of what came by one link, by class; and whether that link was told to
/// pause.
#[derive(Debug, Clone, Default)]
pub(super) struct IngressCheck {
    waiting: [u64; Class::COUNT],
    is_pausing: [bool; Class::COUNT],
    /// Whether the way back is cut, so that no pause gets through.
    is_unreachable: bool,
}

impl IngressCheck {
    /// The link is cut or works again, one way or the other.
    pub(super) fn cut(&mut self, is_way_back: bool, is_cut: bool) {
        if is_cut {
            self.is_pausing = [false; Class::COUNT];
        }
        if is_way_back {
            self.is_unreachable = is_cut;
        }
    }

    /// Bytes of a class that wait.
    pub(super) fn waiting_of(&mut self, class: Class) -> &mut u64 {
        &mut self.waiting[usize::from(class.0) % Class::COUNT]
    }

    pub(super) fn set_pausing(&mut self, class: Class, is_pausing: bool) {
        self.is_pausing[usize::from(class.0) % Class::COUNT] = is_pausing;
    }

    /// Whether more than a threshold waits of a class that may go on.
    pub(super) fn is_unpaused_above(&self, class: Class, pause_above: u64) -> bool {
        let class = usize::from(class.0) % Class::COUNT;
        self.waiting[class] > pause_above && !self.is_pausing[class] && !self.is_unreachable
    }
}

/// What a lossless switch promises.
#[derive(Debug, Clone, Copy)]
pub(super) struct Promise {
    pub(super) buffer: u64,
    pub(super) pause_above: u64,
}

/// A link and class that a switch holds something of.
pub(super) type Ingress = (PortId, Class);
