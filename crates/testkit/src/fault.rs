//! Faults on the path.

use punctual_core::rng::Stream;
use punctual_core::{Duration, Packet};

/// The fault that a packet suffers after it left its host's NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault: it arrives.
    Deliver,
    /// It is lost.
    Drop,
    /// It arrives twice, one copy right after the other.
    Duplicate,
    /// It arrives this much later, so packets sent later may overtake it.
    Delay(Duration),
    /// It arrives with an ECN mark if it is ECN-capable; otherwise it arrives unchanged.
    Mark,
    /// It is trimmed: it arrives as a header of 64 bytes in the control class.
    Trim,
    /// It is trimmed to 64 bytes and returned to its sender.
    Bounce,
}

/// The probability of each fault in a random rule. Other packets are delivered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultOdds {
    /// Probability of [`Fault::Drop`].
    pub drop: f64,
    /// Probability of [`Fault::Duplicate`].
    pub duplicate: f64,
    /// Probability of [`Fault::Delay`].
    pub delay: f64,
    /// Delays are uniform below this.
    pub delay_below: Duration,
    /// Probability of [`Fault::Mark`].
    pub mark: f64,
    /// Probability of [`Fault::Trim`], for trimmable packets.
    pub trim: f64,
    /// Probability of [`Fault::Bounce`], for trimmable packets.
    pub bounce: f64,
    /// Faults hit only the first packets of each direction, this many, so that flows can end.
    pub packets: u64,
}

impl Default for FaultOdds {
    fn default() -> Self {
        FaultOdds {
            drop: 0.0,
            duplicate: 0.0,
            delay: 0.0,
            delay_below: Duration::from_micros(100),
            mark: 0.0,
            trim: 0.0,
            bounce: 0.0,
            packets: u64::MAX,
        }
    }
}

impl FaultOdds {
    /// A fault rule that draws with these probabilities. Equal seeds give equal faults.
    pub fn rule(self, seed: u64) -> impl FnMut(&Packet, u64) -> Fault + 'static {
        let mut stream = Stream::named(seed, "faults", 0);
        move |packet, index| {
            let (mut draw, delay) = (stream.unit(), stream.unit());
            if index >= self.packets {
                return Fault::Deliver;
            }
            let trimmable = packet.flags.has(punctual_core::PacketFlags::TRIMMABLE);
            let (trim, bounce) = if trimmable { (self.trim, self.bounce) } else { (0.0, 0.0) };
            for (probability, fault) in [
                (self.drop, Fault::Drop),
                (self.duplicate, Fault::Duplicate),
                (self.delay, Fault::Delay(self.delay_below.mul_f64(delay))),
                (self.mark, Fault::Mark),
                (trim, Fault::Trim),
                (bounce, Fault::Bounce),
            ] {
                if draw < probability {
                    return fault;
                }
                draw -= probability;
            }
            Fault::Deliver
        }
    }
}
