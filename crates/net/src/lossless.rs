//! Buffer accounting for lossless Ethernet (PFC, IEEE 802.1Qbb). All ports of a switch share one
//! buffer. The switch counts buffered bytes per ingress link and class, and pauses the far end of
//! a link that holds too many.

use punctual_core::{Bytes, Class, Duration, Limit, QueueSpec, Rate};

/// Bytes of a pause or resume frame.
pub const PAUSE_FRAME_BYTES: u16 = 64;

/// PFC thresholds and the size of the shared buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LosslessLimits {
    buffer: u64,
    pause_above: u32,
    resume_below: u32,
}

/// The buffer that all ports of a switch share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedBuffer {
    used: u64,
    most_used: u64,
}

/// Bytes that arrived by one link and are still buffered, per class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngressAccount {
    bytes: [u32; Class::COUNT],
    /// One bit for each class that the far end has been asked to pause.
    pausing: u8,
}

/// Whether the shared buffer takes an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The packet is buffered.
    Admitted,
    /// The packet is buffered, and its ingress link must now be paused for its class.
    AdmittedAndPause,
    /// The buffer is full: it is too small for this network.
    Refused,
}

impl LosslessLimits {
    /// The limits of a lossless queue; `None` for other queues.
    pub fn of(queue: &QueueSpec) -> Option<Self> {
        match *queue {
            QueueSpec::Lossless { buffer, pause_above, resume_below, .. } => Some(LosslessLimits {
                buffer: buffer.get(),
                pause_above: u32::try_from(pause_above.get()).unwrap_or(u32::MAX),
                resume_below: u32::try_from(resume_below.get()).unwrap_or(u32::MAX),
            }),
            _ => None,
        }
    }

    /// Headroom: bytes that can still arrive by a link after the decision to pause it.
    ///
    /// headroom = 2 × `rate` × `one_way` + 2 × (`mtu` + `framing`) + (pause frame + `framing`) +
    /// `mtu`
    ///
    /// They arrive while the pause frame waits for a packet in service, is sent and travels, while
    /// the far end completes its current packet, and while its last packets travel. `one_way` is
    /// the link's propagation and processing delay.
    pub fn headroom(rate: Rate, one_way: Duration, mtu: Bytes, framing: Bytes) -> Bytes {
        let packet = mtu + framing;
        let frame = Bytes::new(u64::from(PAUSE_FRAME_BYTES)) + framing;
        let travel = Duration::from_picos(2 * one_way.as_picos());
        rate.bytes_in(travel) + packet + packet + frame + mtu
    }
}

impl LosslessLimits {
    /// A paused link resumes once it has no more than this in the buffer.
    pub fn resume_below(&self) -> Bytes {
        Bytes::new(u64::from(self.resume_below))
    }
}

impl IngressAccount {
    /// Whether the far end has been asked to pause this class, and not yet to resume it.
    pub fn is_pausing(&self, class: Class) -> bool {
        self.pausing & 1 << (usize::from(class.0) % Class::COUNT) != 0
    }

    /// Clears the pause state of a class, because the far end did not get the pause frame or has
    /// lost it. The next packet above the threshold pauses it again.
    pub fn forget_pause(&mut self, class: Class) {
        self.pausing &= !(1 << (usize::from(class.0) % Class::COUNT));
    }
}

impl SharedBuffer {
    /// Buffers a packet that arrived by the link of `account`, if there is room.
    pub fn admit(
        &mut self,
        account: &mut IngressAccount,
        class: Class,
        bytes: u16,
        limits: &LosslessLimits,
    ) -> Admission {
        let used = self.used + u64::from(bytes);
        if used > limits.buffer {
            return Admission::Refused;
        }
        self.used = used;
        self.most_used = self.most_used.max(used);
        let index = usize::from(class.0) % Class::COUNT;
        account.bytes[index] += u32::from(bytes);
        let is_pausing = account.pausing & 1 << index != 0;
        if account.bytes[index] <= limits.pause_above || is_pausing {
            return Admission::Admitted;
        }
        account.pausing |= 1 << index;
        Admission::AdmittedAndPause
    }

    /// Removes a packet that has left. Returns whether its ingress link may now resume.
    pub fn release(
        &mut self,
        account: &mut IngressAccount,
        class: Class,
        bytes: u16,
        limits: &LosslessLimits,
    ) -> bool {
        let index = usize::from(class.0) % Class::COUNT;
        self.used -= u64::from(bytes);
        account.bytes[index] -= u32::from(bytes);
        let resumes =
            account.pausing & 1 << index != 0 && account.bytes[index] <= limits.resume_below;
        if resumes {
            account.pausing &= !(1 << index);
        }
        resumes
    }

    /// The highest occupancy so far.
    pub fn most_used(&self) -> Bytes {
        Bytes::new(self.most_used)
    }
}

/// What is wrong with the limits of a lossless queue, if anything.
pub fn lossless_mistake(queue: &QueueSpec) -> Option<String> {
    let QueueSpec::Lossless { buffer, pause_above, resume_below, mark_above, .. } = *queue else {
        return None;
    };
    if resume_below > pause_above {
        return Some(format!(
            "`resume_below` ({resume_below}) is more than `pause_above` ({pause_above}): a link \
             would resume as soon as it is paused"
        ));
    }
    if pause_above >= buffer {
        return Some(format!(
            "`pause_above` ({pause_above}) leaves no headroom in the `buffer` ({buffer}) for \
             packets in flight when a link is paused"
        ));
    }
    match mark_above {
        Some(Limit::Bytes(mark)) if mark > buffer => {
            Some(format!("`mark_above` ({mark}) is more than the `buffer` ({buffer})"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: LosslessLimits =
        LosslessLimits { buffer: 10_000, pause_above: 3_000, resume_below: 1_500 };

    #[test]
    fn a_link_is_paused_once_and_resumed_once() {
        let (mut buffer, mut account) = (SharedBuffer::default(), IngressAccount::default());
        let mut admit = |n| {
            let class = Class::DATA;
            (0..n).map(|_| buffer.admit(&mut account, class, 1_500, &LIMITS)).collect::<Vec<_>>()
        };
        use Admission::*;
        assert_eq!(admit(4), [Admitted, Admitted, AdmittedAndPause, Admitted]);
        assert_eq!(admit(3), [Admitted, Admitted, Refused]);
        let mut release = || buffer.release(&mut account, Class::DATA, 1_500, &LIMITS);
        let resumes: Vec<bool> = (0..6).map(|_| release()).collect();
        assert_eq!(resumes, [false, false, false, false, true, false]);
        assert_eq!(buffer, SharedBuffer { used: 0, most_used: 9_000 });
        assert_eq!(account, IngressAccount::default());
    }

    #[test]
    fn classes_and_links_have_accounts_of_their_own() {
        let mut buffer = SharedBuffer::default();
        let mut accounts = [IngressAccount::default(); 2];
        for class in [Class::CONTROL, Class::DATA] {
            for account in &mut accounts {
                let admission = buffer.admit(account, class, 2_000, &LIMITS);
                assert_eq!(admission, Admission::Admitted, "2,000 of each, 8,000 of all");
            }
        }
        let admission = buffer.admit(&mut accounts[1], Class::DATA, 1_500, &LIMITS);
        assert_eq!(admission, Admission::AdmittedAndPause);
    }

    proptest! {
        /// Pauses and resumes alternate, and the buffer holds the sum of the accounts, never more
        /// than its size.
        #[test]
        fn accounts_add_up(ops in prop::collection::vec((0usize..3, 0u8..2, 1u16..3000, any::<bool>()), 1..400)) {
            let mut buffer = SharedBuffer::default();
            let mut accounts = [IngressAccount::default(); 3];
            let mut held: Vec<(usize, Class, u16)> = Vec::new();
            let mut paused = [[false; 2]; 3];
            for (link, class, bytes, leave) in ops {
                if leave && !held.is_empty() {
                    let (link, class, bytes) = held.remove(0);
                    if buffer.release(&mut accounts[link], class, bytes, &LIMITS) {
                        prop_assert!(std::mem::replace(&mut paused[link][usize::from(class.0)], false));
                    }
                    continue;
                }
                let class = Class(class);
                match buffer.admit(&mut accounts[link], class, bytes, &LIMITS) {
                    Admission::Refused => continue,
                    Admission::Admitted => {}
                    Admission::AdmittedAndPause => {
                        prop_assert!(!std::mem::replace(&mut paused[link][usize::from(class.0)], true));
                    }
                }
                held.push((link, class, bytes));
                let sum: u64 = held.iter().map(|h| u64::from(h.2)).sum();
                prop_assert_eq!(buffer.used, sum);
                prop_assert!(sum <= LIMITS.buffer);
            }
            for (link, class, bytes) in held {
                let resumes = buffer.release(&mut accounts[link], class, bytes, &LIMITS);
                paused[link][usize::from(class.0)] &= !resumes;
            }
            prop_assert_eq!(paused, [[false; 2]; 3]);
            prop_assert_eq!(buffer.used, 0);
        }
    }
}
