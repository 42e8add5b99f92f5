//! D2TCP in a stock Linux kernel.
//!
//! A BPF program registers the congestion controls `d2tcp` and `pn_dctcp`. Applications declare the
//! deadlines of their messages by a socket option, without privilege:
//!
//! ```no_run
//! # use std::{io::Write as _, net::TcpStream, time::Duration};
//! let mut stream = TcpStream::connect("10.0.0.1:80")?;
//! let message = [0; 100_000];
//! punctual_kernel::set_deadline(&stream, 100_000, Duration::from_millis(20))?;
//! stream.write_all(&message)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The feature `loader` adds what loads and removes the programs; it needs libelf and zlib.

mod client;
#[cfg(feature = "loader")]
mod loader;
mod sys;

pub use client::{
    ControlState, DeadlineError, Info, MESSAGES_MAX, SIZE_MAX, clear_deadlines, info, set_deadline,
    set_imminence,
};
#[cfg(feature = "loader")]
pub use loader::{
    Finding, LawPoint, ListedSocket, LoadError, LoadOptions, Loaded, Marks, Paths, RouteOption,
    Status, doctor, load, load_object, sockets, status, unload,
};
pub use sys::{congestion_control, set_congestion_control};

/// The BPF object, built by `bpf/build.sh`.
#[cfg(feature = "loader")]
pub static OBJECT: &[u8] = include_bytes!("../bpf/d2tcp.bpf.o");
