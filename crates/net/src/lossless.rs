//! Lossless Ethernet's accounts. All ports of a switch share one buffer; what is in it is put
//! down to the link it came by, class by class, and a link that has too much in it is to be
//! paused at its far end (IEEE 802.1Qbb, "PFC").

use punctual_core::{Bytes, Class, Duration, Limit, QueueSpec, Rate};

/// Bytes of a pause or resume frame.
pub const PAUSE_FRAME_BYTES: u16 = 64;

/// When to pause and when to go on, and what there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LosslessLimits {
    buffer: u64,
    pause_above: u32,
    resume_below: u32,
}

/// The buffer that a switch's ports share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedBuffer {
    used: u64,
    most_used: u64,
}

/// What came by one link and is in the buffer still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngressAccount {
    bytes: [u32; Class::COUNT],
    /// A bit for each class that the far end was told to pause.
    pausing: u8,
}

/// What a buffer says to an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// There is room.
    Admitted,
    /// There is room, but the link it came by is to be paused for this class.
    AdmittedAndPause,
    /// There is no room: the buffer is too small for this network.
    Refused,
}

impl LosslessLimits {
    /// Those of a queue that is lossless; none of others.
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

    /// Bytes that can still arrive by a link after the decision to pause it: while the frame
    /// waits for a packet that is being sent, is sent, travels and is acted on once the far end
    /// has sent the packet it had begun; and what was on the way by then. `one_way` is the
    /// link's propagation and processing.
    pub fn headroom(rate: Rate, one_way: Duration, mtu: Bytes, framing: Bytes) -> Bytes {
        let packet = mtu + framing;
        let frame = Bytes::new(u64::from(PAUSE_FRAME_BYTES)) + framing;
        let travel = Duration::from_picos(2 * one_way.as_picos());
        rate.bytes_in(travel) + packet + packet + frame + mtu
    }
}

impl LosslessLimits {
    /// A link goes on once it has no more than this in the buffer.
    pub fn resume_below(&self) -> Bytes {
        Bytes::new(u64::from(self.resume_below))
    }
}

impl IngressAccount {
    /// Whether the far end was told to pause this class, and not yet to go on.
    pub fn is_pausing(&self, class: Class) -> bool {
        self.pausing & 1 << (usize::from(class.0) % Class::COUNT) != 0
    }

    /// Forgets that the far end was told to pause this class, because it cannot know it. The next
    /// packet that finds too much in the buffer tells it again.
    pub fn forget_pause(&mut self, class: Class) {
        self.pausing &= !(1 << (usize::from(class.0) % Class::COUNT));
    }
}

impl SharedBuffer {
    /// Takes in a packet that came by the link of `account`, if there is room.
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
        let line = usize::from(class.0) % Class::COUNT;
        account.bytes[line] += u32::from(bytes);
        let is_pausing = account.pausing & 1 << line != 0;
        if account.bytes[line] <= limits.pause_above || is_pausing {
            return Admission::Admitted;
        }
        account.pausing |= 1 << line;
        Admission::AdmittedAndPause
    }

    /// A packet has left. Whether the link it came by may go on.
    pub fn release(
        &mut self,
        account: &mut IngressAccount,
        class: Class,
        bytes: u16,
        limits: &LosslessLimits,
    ) -> bool {
        let line = usize::from(class.0) % Class::COUNT;
        self.used -= u64::from(bytes);
        account.bytes[line] -= u32::from(bytes);
        let resumes =
            account.pausing & 1 << line != 0 && account.bytes[line] <= limits.resume_below;
        if resumes {
            account.pausing &= !(1 << line);
        }
        resumes
    }

    /// The most that was ever in it.
    pub fn most_used(&self) -> Bytes {
        Bytes::new(self.most_used)
    }
}

/// What is wrong with a lossless queue's limits, if anything.
pub fn lossless_mistake(queue: &QueueSpec) -> Option<String> {
    let QueueSpec::Lossless { buffer, pause_above, resume_below, mark_above, .. } = *queue else {
        return None;
    };
    if resume_below > pause_above {
        return Some(format!(
            "`resume_below` ({resume_below}) is more than `pause_above` ({pause_above}): a link \
             would be told to go on as soon as it was paused"
        ));
    }
    if pause_above >= buffer {
        return Some(format!(
            "`pause_above` ({pause_above}) leaves no room in the `buffer` ({buffer}) for what is \
             on its way when a link is paused"
        ));
    }
    match mark_above {
        Some(Limit::Bytes(mark)) if mark > buffer => {
            Some(format!("`mark_above` ({mark}) is more than the whole `buffer` ({buffer})"))
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
        /// Pauses and resumes alternate, the buffer holds what the accounts say, and never more
        /// than it has room for.
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
