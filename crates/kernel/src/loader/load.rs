//! Loading, pinning, unloading.

use super::LoadError;
use super::doctor::{cgroup_root, doctor};
use super::object::{Loaded, Settings};
use super::state::{
    Paths, State, default_control, in_netns, netns_path, route, set_default_control,
};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A prefix whose route gets D2TCP.
pub type RouteOption = String;

/// What to load, and who uses it.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Where pins and state are kept.
    pub paths: Paths,
    /// The name of D2TCP, at most 15 letters, digits and underscores.
    pub d2tcp: String,
    /// The name of DCTCP.
    pub dctcp: String,
    /// Sockets of this control group take deadlines; none is the root of control groups.
    pub cgroup: Option<PathBuf>,
    /// Connections and listeners of the control group get D2TCP.
    pub adopt: bool,
    /// The network namespace of the default, the routes and the marker, a name or a path.
    pub netns: Option<PathBuf>,
    /// D2TCP is the default of the network namespace.
    pub default: bool,
    /// Routes that get D2TCP.
    pub routes: Vec<RouteOption>,
    /// Devices on whose egress packets are marked.
    pub mark_devices: Vec<String>,
    /// The backlog above which they are marked, in bytes.
    pub mark_bytes: u32,
    /// Load nothing but the marker, for a machine that forwards.
    pub marker_only: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            paths: Paths::default(),
            d2tcp: "d2tcp".into(),
            dctcp: "pn_dctcp".into(),
            cgroup: None,
            adopt: false,
            netns: None,
            default: false,
            routes: Vec::new(),
            mark_devices: Vec::new(),
            mark_bytes: 30 * 1514,
            marker_only: false,
        }
    }
}

impl LoadOptions {
    fn check(&self) -> Result<(), LoadError> {
        for name in [&self.d2tcp, &self.dctcp] {
            let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || name.len() > 15 || !name.chars().all(is_letter) {
                return Err(LoadError::Option(format!(
                    "`{name}` cannot name a congestion control: 1 to 15 letters, digits and _"
                )));
            }
        }
        if self.d2tcp == self.dctcp {
            return Err(LoadError::Option("the two congestion controls need two names".into()));
        }
        if self.marker_only && self.mark_devices.is_empty() {
            return Err(LoadError::Option("--mark-only needs a device: add --mark DEVICE".into()));
        }
        if self.marker_only && (self.adopt || self.default || !self.routes.is_empty()) {
            let message = "--mark-only loads no congestion control for --adopt, --default, --route";
            return Err(LoadError::Option(message.into()));
        }
        Ok(())
    }

    fn state(&self, cgroup: PathBuf, netns: Option<PathBuf>) -> Result<State, LoadError> {
        let marks = !self.mark_devices.is_empty();
        let mut state = State {
            d2tcp: self.d2tcp.clone(),
            dctcp: self.dctcp.clone(),
            cgroup,
            adopts: self.adopt,
            marker_only: self.marker_only,
            netns,
            mark_bytes: marks.then_some(self.mark_bytes),
            mark_devices: self.mark_devices.clone(),
            ..State::default()
        };
        let netns = state.netns.clone();
        in_netns(netns.as_deref(), || {
            if self.default {
                state.previous_default = Some(default_control()?);
            }
            for prefix in &self.routes {
                state.routes.push(route(prefix)?);
            }
            Ok(())
        })?;
        Ok(state)
    }
}

/// Loads D2TCP from `object` and pins it, so that it stays after this process ends.
///
/// What it changes is on disk before it is changed: after a crash, [`unload`] restores it.
pub fn load(object: &[u8], options: &LoadOptions) -> Result<(), LoadError> {
    options.check()?;
    let paths = &options.paths;
    if let Some(missing) = doctor(paths).into_iter().find(|f| f.is_required && !f.is_present) {
        return Err(LoadError::Missing(missing));
    }
    if paths.state.exists() {
        return Err(LoadError::AlreadyLoaded(paths.state.clone()));
    }
    let cgroup = match &options.cgroup {
        Some(path) => path.clone(),
        None => cgroup_root().ok_or_else(|| LoadError::Option("no cgroup v2 is mounted".into()))?,
    };
    let cgroup_file = File::open(&cgroup)
        .map_err(LoadError::system(format!("control group {}", cgroup.display())))?;
    let state = options.state(cgroup, options.netns.as_deref().map(netns_path))?;
    let settings =
        Settings { d2tcp: &options.d2tcp, dctcp: &options.dctcp, mark_bytes: state.mark_bytes };
    let mut loaded = Loaded::load(object, settings)?;
    match std::fs::create_dir(&paths.pins) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(LoadError::AlreadyLoaded(paths.pins.clone()));
        }
        result => result.map_err(LoadError::system(paths.pins.display().to_string()))?,
    }
    let attached = state
        .write(&paths.state)
        .and_then(|()| attach(&mut loaded, &state, &cgroup_file, &paths.pins));
    if let Err(error) = attached {
        // The first error is the one to report.
        let _ = unload(paths);
        return Err(error);
    }
    Ok(())
}

fn attach(loaded: &mut Loaded, state: &State, cgroup: &File, pins: &Path) -> Result<(), LoadError> {
    if !state.marker_only {
        loaded.register("d2tcp", &pins.join("d2tcp"))?;
        loaded.register("pn_dctcp", &pins.join("pn_dctcp"))?;
        loaded.attach_cgroup("set_option", cgroup, &pins.join("set_option"))?;
        loaded.attach_cgroup("get_option", cgroup, &pins.join("get_option"))?;
    }
    loaded.pin_lists(&pins.join("sockets"), &pins.join("marks"))?;
    if state.adopts {
        loaded.attach_cgroup("adopt", cgroup, &pins.join("adopt"))?;
    }
    in_netns(state.netns.as_deref(), || {
        for device in &state.mark_devices {
            let index = nix::net::if_::if_nametoindex(device.as_str()).map_err(|error| {
                LoadError::Option(format!("--mark {device}: no such device ({error})"))
            })?;
            let pin = pins.join(format!("mark_{}", device.replace('.', "_")));
            loaded.attach_marker(index.cast_signed(), &pin)?;
        }
        if state.previous_default.is_some() {
            set_default_control(&state.d2tcp)?;
        }
        state.routes.iter().try_for_each(|route| route.set_control(&state.d2tcp))
    })
}

/// Detaches a pinned program at once: without, the kernel does so some time after the pin is gone.
/// What cannot be detached, such as a map, goes with its pin.
fn detach(pin: &Path) {
    libbpf_rs::set_print(None);
    if let Ok(link) = libbpf_rs::Link::open(pin) {
        let _ = link.detach();
    }
}

/// Waits until the kernel has forgotten these congestion controls, for two seconds at most: one
/// that a namespace has as its default stays.
fn await_unregistered(names: &[&str]) {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    for _ in 0..100 {
        let present = std::fs::read_to_string(path).unwrap_or_default();
        if !present.split_whitespace().any(|name| names.contains(&name)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Restores what [`load`] changed and removes its pins; returns whether there was anything.
///
/// Connections that use D2TCP keep it until they close. Works after a crash of the loader.
pub fn unload(paths: &Paths) -> Result<bool, LoadError> {
    let state = State::read(&paths.state)?;
    let restored = state.as_ref().map_or(Ok(()), State::restore);
    let mut found = state.is_some();
    match std::fs::read_dir(&paths.pins) {
        Ok(entries) => {
            found = true;
            for entry in entries.flatten() {
                let path = entry.path();
                detach(&path);
                let what = format!("cannot remove {}", path.display());
                std::fs::remove_file(&path).map_err(LoadError::system(what))?;
            }
            let what = format!("cannot remove {}", paths.pins.display());
            std::fs::remove_dir(&paths.pins).map_err(LoadError::system(what))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(LoadError::system(paths.pins.display().to_string())(error)),
    }
    restored?;
    if let Some(state) = &state {
        await_unregistered(&[&state.d2tcp, &state.dctcp]);
        let what = format!("cannot remove {}", paths.state.display());
        std::fs::remove_file(&paths.state).map_err(LoadError::system(what))?;
        // Fails if something else is in it.
        if let Some(dir) = paths.state.parent().filter(|dir| dir.ends_with("punctual")) {
            let _ = std::fs::remove_dir(dir);
        }
    }
    Ok(found)
}
