//! Deadlines of messages on a TCP socket. `include/punctual.h` defines the options.

use crate::sys::{get_option, set_option};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

const LEVEL: i32 = 0xD27C;
const DEADLINE: i32 = 1;
const CLEAR: i32 = 2;
const IMMINENCE: i32 = 3;
const INFO: i32 = 4;
const INFO_BYTES: usize = 56;

/// The number of messages of one socket that can wait with a deadline.
pub const MESSAGES_MAX: usize = 8;
/// The largest size of a message, in bytes.
pub const SIZE_MAX: u64 = 1 << 50;

/// Why a socket takes no deadline.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeadlineError {
    /// No program handles the option for this socket.
    NotLoaded,
    /// The size or the time is out of range.
    OutOfRange,
    /// The socket is not a TCP socket.
    NotTcp,
    /// [`MESSAGES_MAX`] messages wait already.
    TooManyMessages,
    /// Another error of the system call.
    Io(io::Error),
}

impl fmt::Display for DeadlineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeadlineError::NotLoaded => f.write_str(
                "D2TCP does not handle this socket: run `punctual kernel load`, and create the \
                 socket in a process of the control group that it names",
            ),
            DeadlineError::OutOfRange => f.write_str(
                "a message has at most 2^50 bytes, a deadline is at most 2^50 us away, and d is \
                 between d_min and d_max",
            ),
            DeadlineError::NotTcp => f.write_str("only TCP sockets have deadlines"),
            DeadlineError::TooManyMessages => write!(
                f,
                "{MESSAGES_MAX} messages with deadlines wait on this socket: wait until one is \
                 acknowledged"
            ),
            DeadlineError::Io(error) => write!(f, "cannot set a deadline: {error}"),
        }
    }
}

impl std::error::Error for DeadlineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DeadlineError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for DeadlineError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP) => DeadlineError::NotLoaded,
            Some(libc::EINVAL) => DeadlineError::OutOfRange,
            Some(libc::EPROTOTYPE) => DeadlineError::NotTcp,
            Some(libc::ENOBUFS) => DeadlineError::TooManyMessages,
            _ => DeadlineError::Io(error),
        }
    }
}

/// Declares that the next `size` bytes written to the socket must arrive `within` this time.
///
/// Call it before writing the message. Several messages may follow each other; the one that needs
/// the highest rate sets d. A time of zero is a deadline that has passed: the message is sent as
/// by DCTCP.
pub fn set_deadline(socket: &impl AsFd, size: u64, within: Duration) -> Result<(), DeadlineError> {
    let within_us = i64::try_from(within.as_micros()).map_err(|_| DeadlineError::OutOfRange)?;
    let mut value = [0; 16];
    value[..8].copy_from_slice(&size.to_ne_bytes());
    value[8..].copy_from_slice(&within_us.to_ne_bytes());
    Ok(set_option(socket, LEVEL, DEADLINE, &value)?)
}

/// Forgets the deadlines of a socket: what it sends is sent as by DCTCP.
pub fn clear_deadlines(socket: &impl AsFd) -> Result<(), DeadlineError> {
    Ok(set_option(socket, LEVEL, CLEAR, &[0; 4])?)
}

/// Holds d of a socket at a number of 2⁻¹⁶, for experiments; 0 computes it from the deadlines.
pub fn set_imminence(socket: &impl AsFd, bits: u32) -> Result<(), DeadlineError> {
    Ok(set_option(socket, LEVEL, IMMINENCE, &bits.to_ne_bytes())?)
}

/// What drives the congestion window of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlState {
    /// Another congestion control.
    Inactive,
    /// D2TCP.
    D2tcp,
    /// D2TCP's code with d = 1.
    Dctcp,
}

/// The state of D2TCP on a socket.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// What drives the congestion window.
    pub state: ControlState,
    /// Messages with a deadline and bytes not acknowledged.
    pub messages: u32,
    /// Bytes not acknowledged of the first of them.
    pub bytes_left: u64,
    /// Microseconds to its deadline; negative after it.
    pub left_us: i64,
    /// α, the marked fraction.
    pub alpha: f64,
    /// d at the last cut; 1 before the first.
    pub d: f64,
    /// α^d at the last cut.
    pub penalty: f64,
    /// Cuts because of marks.
    pub cuts: u32,
    /// Mean of d over the cuts; 1 without any.
    pub d_mean: f64,
    /// Congestion window in packets.
    pub cwnd: u32,
    /// Recoveries and timeouts that cut the window.
    pub losses: u32,
}

impl Info {
    /// Reads `struct punctual_info`.
    pub(crate) fn parse(bytes: &[u8; INFO_BYTES]) -> Info {
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let (cuts, d_sum) = (word(36), long(40));
        let mean = || d_sum as f64 / 65536.0 / f64::from(cuts);
        Info {
            state: match word(0) {
                1 => ControlState::D2tcp,
                2 => ControlState::Dctcp,
                _ => ControlState::Inactive,
            },
            messages: word(4),
            bytes_left: long(8),
            left_us: long(16).cast_signed(),
            alpha: f64::from(word(24)) / 1_048_576.0,
            d: f64::from(word(28)) / 65536.0,
            penalty: f64::from(word(32)) / 1_048_576.0,
            cuts,
            d_mean: if cuts == 0 { 1.0 } else { mean() },
            cwnd: word(48),
            losses: word(52),
        }
    }

    /// The size of `struct punctual_info`.
    #[cfg(feature = "loader")]
    pub(crate) const BYTES: usize = INFO_BYTES;
}

/// The state of D2TCP on a socket.
pub fn info(socket: &impl AsFd) -> Result<Info, DeadlineError> {
    let mut bytes = [0; INFO_BYTES];
    get_option(socket, LEVEL, INFO, &mut bytes)?;
    Ok(Info::parse(&bytes))
}
