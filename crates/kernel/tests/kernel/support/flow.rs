//! Connections that send, and what became of them.
#![allow(unsafe_code, reason = "TCP_INFO has no safe interface")]

use super::Namespace;
use punctual_kernel::{Info, congestion_control, info, set_congestion_control, set_deadline};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How much a connection sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Plan {
    Bytes(u64),
    For(Duration),
}

/// A connection to open.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) control: String,
    pub(crate) to: SocketAddr,
    pub(crate) plan: Plan,
    /// d, held.
    pub(crate) imminence: Option<f64>,
    pub(crate) deadline: Option<Duration>,
    /// Sample the window so often.
    pub(crate) sample: Option<Duration>,
}

/// What a connection did.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// The congestion control at the end.
    pub(crate) control: String,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) retransmissions: u32,
    pub(crate) has_ecn: bool,
    pub(crate) info: Option<Info>,
    /// Window in packets, by time in seconds.
    pub(crate) windows: Vec<(f64, u32)>,
}

impl Sent {
    pub(crate) fn mbits(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.seconds
    }
}

impl Flow {
    pub(crate) fn new(control: &str, to: SocketAddr, plan: Plan) -> Flow {
        let control = control.to_owned();
        Flow { control, to, plan, imminence: None, deadline: None, sample: None }
    }

    /// Opens the connection, with its congestion control before the SYN.
    pub(crate) fn connect(&self) -> std::io::Result<TcpStream> {
        let domain = Domain::for_address(self.to);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        set_congestion_control(&socket, &self.control)?;
        socket.connect_timeout(&self.to.into(), Duration::from_secs(5))?;
        let stream = TcpStream::from(socket);
        stream.set_write_timeout(Some(Duration::from_secs(20)))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(stream)
    }

    /// Sends in a namespace, until all has arrived.
    pub(crate) fn send(&self, from: &Namespace) -> Sent {
        from.run(|| self.send_here().unwrap_or_else(|error| panic!("{self:?}: {error}")))
    }

    fn send_here(&self) -> std::io::Result<Sent> {
        let mut stream = self.connect()?;
        if let Some(d) = self.imminence {
            punctual_kernel::set_imminence(&stream, (d * 65536.0) as u32).expect("imminence");
        }
        let size = match self.plan {
            Plan::Bytes(bytes) => bytes,
            Plan::For(_) => u64::MAX,
        };
        if let Some(within) = self.deadline {
            set_deadline(&stream, size, within).expect("deadline");
        }
        let begun = Instant::now();
        let (mut bytes, watched) = (0, stream.try_clone()?);
        let done = AtomicBool::new(false);
        let windows = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| watch(&watched, self.sample, begun, &done));
            let chunk = [0u8; 16384];
            let is_late = |now: Instant| matches!(self.plan, Plan::For(t) if now - begun >= t);
            let mut result = Ok(());
            while bytes < size && !is_late(Instant::now()) && result.is_ok() {
                let length = chunk.len().min(usize::try_from(size - bytes).unwrap_or(usize::MAX));
                result = stream.write(&chunk[..length]).map(|written| bytes += written as u64);
            }
            done.store(true, Ordering::Relaxed);
            let windows = watcher.join().expect("watcher");
            result.and(windows)
        })?;
        stream.shutdown(std::net::Shutdown::Write)?;
        if stream.read(&mut [0])? != 0 {
            return Err(std::io::Error::other("the receiver sent data"));
        }
        let seconds = begun.elapsed().as_secs_f64();
        let tcp = tcp_info(&stream)?;
        Ok(Sent {
            control: congestion_control(&stream)?,
            bytes,
            seconds,
            retransmissions: tcp.tcpi_total_retrans,
            has_ecn: tcp.tcpi_options & 8 != 0,
            info: info(&stream).ok(),
            windows,
        })
    }
}

/// Samples the window of a socket until it is done.
fn watch(
    stream: &TcpStream,
    period: Option<Duration>,
    begun: Instant,
    done: &AtomicBool,
) -> std::io::Result<Vec<(f64, u32)>> {
    let (Some(period), mut windows) = (period, Vec::new()) else { return Ok(Vec::new()) };
    while !done.load(Ordering::Relaxed) {
        windows.push((begun.elapsed().as_secs_f64(), tcp_info(stream)?.tcpi_snd_cwnd));
        std::thread::sleep(period);
    }
    Ok(windows)
}

/// `struct tcp_info` of a socket.
fn tcp_info(stream: &TcpStream) -> std::io::Result<libc::tcp_info> {
    // SAFETY: all-zero bytes are a valid tcp_info.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: pointer and length are those of `info`.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok(info) } else { Err(std::io::Error::last_os_error()) }
}

/// Listens in a namespace with a congestion control; reads and closes every connection, until the
/// test ends.
pub(crate) fn receive(at: &Namespace, address: IpAddr, control: &str) -> SocketAddr {
    let listener = at.run(|| {
        let address = SocketAddr::new(address, 0);
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        set_congestion_control(&socket, control)?;
        socket.bind(&address.into())?;
        socket.listen(512)?;
        Ok::<_, std::io::Error>(TcpListener::from(socket))
    });
    let listener = listener.expect("listener");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::Builder::new()
                .stack_size(256 << 10)
                .spawn(move || {
                    let mut buffer = vec![0; 65536];
                    while stream.read(&mut buffer).is_ok_and(|length| length > 0) {}
                })
                .expect("thread");
        }
    });
    address
}
