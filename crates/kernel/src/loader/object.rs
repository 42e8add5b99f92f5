//! The BPF object: settings, loading, attaching.

use super::LoadError;
use crate::sys::attach_egress;
use libbpf_rs::{
    Link, MapCore as _, MapMut, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramInput,
    ProgramMut,
};
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::sync::Mutex;

/// Messages of libbpf since the last failure, with the verifier's log.
static LOG: Mutex<String> = Mutex::new(String::new());

fn collect(_: PrintLevel, message: String) {
    if let Ok(mut log) = LOG.lock() {
        log.push_str(&message);
    }
}

fn take_log() -> String {
    LOG.lock().map(|mut log| std::mem::take(&mut *log)).unwrap_or_default()
}

/// Names and settings of one load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings<'a> {
    pub(super) d2tcp: &'a str,
    pub(super) dctcp: &'a str,
    /// The marker marks above this backlog, and is loaded only if it is given.
    pub(super) mark_bytes: Option<u32>,
}

/// A loaded object, not attached to anything. Dropping it removes its programs.
#[derive(Debug)]
pub struct Loaded {
    object: Object,
}

/// One point at which the law is computed in the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct LawPoint {
    /// α as a multiple of 2⁻²⁰.
    pub alpha: u32,
    /// d as a multiple of 2⁻¹⁶.
    pub d: u32,
    /// Marked packets of a window.
    pub marked: u32,
    /// Acknowledged packets of a window.
    pub acked: u32,
    /// Bytes left.
    pub bytes: u64,
    /// The window in bytes.
    pub window: u64,
    /// RTT in microseconds.
    pub rtt_us: u64,
    /// Microseconds to the deadline.
    pub left_us: u64,
}

/// Loads an object under these names of the two congestion controls, without the marker.
pub fn load_object(object: &[u8], d2tcp: &str, dctcp: &str) -> Result<Loaded, LoadError> {
    Loaded::load(object, Settings { d2tcp, dctcp, mark_bytes: None })
}

/// Replaces the default name of a congestion control in the bytes of its structure.
fn rename(open: &mut OpenObject, default: &str, name: &str) -> Result<(), LoadError> {
    let mut maps = open.maps_mut();
    let mut map = maps.find(|map| map.name() == default).ok_or_else(|| missing(default))?;
    let bytes = map.initial_value_mut().ok_or_else(|| missing(default))?;
    let mut old = [0; 16];
    old[..default.len()].copy_from_slice(default.as_bytes());
    let at = bytes.windows(16).position(|w| w == old).ok_or_else(|| missing(default))?;
    bytes[at..at + 16].fill(0);
    bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    Ok(())
}

fn missing(what: &str) -> LoadError {
    LoadError::Option(format!("the BPF object has no {what}"))
}

impl Loaded {
    pub(super) fn load(object: &[u8], settings: Settings<'_>) -> Result<Loaded, LoadError> {
        libbpf_rs::set_print(Some((PrintLevel::Info, collect)));
        let rejected = |error| LoadError::Rejected { error, log: take_log() };
        let mut builder = ObjectBuilder::default();
        builder.name("punctual").map_err(rejected)?;
        let mut open = builder.open_memory(object).map_err(rejected)?;
        rename(&mut open, "d2tcp", settings.d2tcp)?;
        rename(&mut open, "pn_dctcp", settings.dctcp)?;
        let mut maps = open.maps_mut();
        let mut map = maps
            .find(|map| map.name().to_string_lossy().ends_with(".rodata.settings"))
            .ok_or_else(|| missing(".rodata.settings"))?;
        let bytes = map.initial_value_mut().ok_or_else(|| missing(".rodata.settings"))?;
        if let Some(mark_bytes) = settings.mark_bytes {
            bytes[12..16].copy_from_slice(&mark_bytes.to_ne_bytes());
        }
        bytes[16..32].fill(0);
        bytes[16..16 + settings.d2tcp.len()].copy_from_slice(settings.d2tcp.as_bytes());
        drop(maps);
        if settings.mark_bytes.is_none() {
            open.progs_mut().filter(|p| p.name() == "mark").for_each(|mut p| {
                p.set_autoload(false);
            });
        }
        Ok(Loaded { object: open.load().map_err(rejected)? })
    }

    fn program(&self, name: &str) -> Result<ProgramMut<'_>, LoadError> {
        self.object.progs_mut().find(|p| p.name() == name).ok_or_else(|| missing(name))
    }

    fn map(&mut self, name: &str) -> Result<MapMut<'_>, LoadError> {
        let is = |map: &MapMut<'_>| map.name().to_string_lossy().ends_with(name);
        self.object.maps_mut().find(is).ok_or_else(|| missing(name))
    }

    /// Registers a congestion control and pins it.
    pub(super) fn register(&mut self, map: &str, pin: &Path) -> Result<(), LoadError> {
        let link = self.map(map)?.attach_struct_ops();
        pinned(map, link, pin)
    }

    /// Attaches a program to a control group and pins it.
    pub(super) fn attach_cgroup(
        &self,
        program: &str,
        cgroup: &File,
        pin: &Path,
    ) -> Result<(), LoadError> {
        let link = self.program(program)?.attach_cgroup(cgroup.as_raw_fd());
        pinned(program, link, pin)
    }

    /// Attaches the marker to a device of the present network namespace and pins it.
    pub(super) fn attach_marker(&self, device: i32, pin: &Path) -> Result<(), LoadError> {
        let link = attach_egress(&self.program("mark")?, device).map_err(libbpf_rs::Error::from);
        pinned("the marker", link, pin)
    }

    /// Pins the list of sockets, which any reader of the pin gets, and the marker's counters.
    pub(super) fn pin_lists(&mut self, sockets: &Path, marks: &Path) -> Result<(), LoadError> {
        let link = {
            let flows = self.map("flows")?;
            // The map is borrowed mutably; its descriptor outlives the call.
            let fd = flows.as_fd().try_clone_to_owned().map_err(LoadError::system("flows"))?;
            self.program("list_sockets")?.attach_iter(fd.as_fd())
        };
        pinned("the list of sockets", link, sockets)?;
        let pin = self.map(".bss.marks")?.pin(marks);
        pin.map_err(|error| attach_error("the marker's counters", error))
    }

    /// p = α^d, the next α and d at a point, computed in the kernel.
    pub fn law(&self, point: &LawPoint) -> Result<[u32; 3], LoadError> {
        let mut context = [0; 64];
        for (at, value) in [point.alpha, point.d, point.marked, point.acked].iter().enumerate() {
            context[4 * at..4 * at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let longs = [point.bytes, point.window, point.rtt_us, point.left_us];
        for (at, value) in longs.iter().enumerate() {
            context[16 + 8 * at..24 + 8 * at].copy_from_slice(&value.to_ne_bytes());
        }
        let input = ProgramInput { context_in: Some(&mut context), ..Default::default() };
        let run = self.program("run_law")?.test_run(input).map(|_| ());
        run.map_err(|error| attach_error("run_law", error))?;
        let word =
            |at: usize| u32::from_ne_bytes(context[at..at + 4].try_into().unwrap_or_default());
        Ok([word(48), word(52), word(56)])
    }
}

fn attach_error(what: &str, error: libbpf_rs::Error) -> LoadError {
    LoadError::Attach { what: what.to_owned(), error, log: take_log() }
}

fn pinned(what: &str, link: Result<Link, libbpf_rs::Error>, pin: &Path) -> Result<(), LoadError> {
    let result = link.and_then(|mut link| {
        link.pin(pin)?;
        Ok(())
    });
    result.map_err(|error| attach_error(what, error))
}
