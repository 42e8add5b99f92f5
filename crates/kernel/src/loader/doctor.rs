//! What this machine has of what D2TCP needs.

use super::state::Paths;
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use std::path::{Path, PathBuf};

/// One thing that D2TCP needs, and whether it is present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub name: &'static str,
    /// Whether loading needs it.
    pub is_required: bool,
    /// Whether it is there.
    pub is_present: bool,
    /// What was found.
    pub detail: String,
    /// How to get it.
    pub remedy: String,
}

/// The oldest kernel with all that is used: tcx links.
const OLDEST: (u32, u32) = (6, 6);

/// Looks at the machine.
pub fn doctor(paths: &Paths) -> Vec<Finding> {
    let mut findings = vec![kernel(), btf(), capabilities(), bpffs(paths), cgroup()];
    findings.extend([jit(), ecn(), program()]);
    findings
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    Finding {
        name: "kernel",
        is_required: true,
        is_present: version >= OLDEST,
        detail: format!("Linux {release}"),
        remedy: format!("use Linux {}.{} or newer", OLDEST.0, OLDEST.1),
    }
}

fn btf() -> Finding {
    let path = "/sys/kernel/btf/vmlinux";
    let is_present = std::fs::File::open(path).is_ok();
    Finding {
        name: "kernel types (BTF)",
        is_required: true,
        is_present,
        detail: if is_present { path.into() } else { format!("{path} cannot be read") },
        remedy: "use a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions build it".into(),
    }
}

/// Capabilities and their bits.
const CAPABILITIES: [(u32, &str); 3] =
    [(12, "CAP_NET_ADMIN"), (38, "CAP_PERFMON"), (39, "CAP_BPF")];

fn capabilities() -> Finding {
    let status = read("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    let lacking: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|(bit, _)| bits >> bit & 1 == 0)
        .map(|(_, name)| *name)
        .collect();
    Finding {
        name: "capabilities",
        is_required: true,
        is_present: lacking.is_empty(),
        detail: if lacking.is_empty() {
            CAPABILITIES.map(|(_, name)| name).join(", ")
        } else {
            format!("this process lacks {}", lacking.join(", "))
        },
        remedy: "run as root, with sudo, or with AmbientCapabilities of systemd".into(),
    }
}

fn bpffs(paths: &Paths) -> Finding {
    let dir = paths.pins.parent().unwrap_or(Path::new("/"));
    let is_present = statfs(dir).is_ok_and(|fs| fs.filesystem_type() == BPF_FS_MAGIC);
    let dir = dir.display();
    Finding {
        name: "BPF file system",
        is_required: true,
        is_present,
        detail: if is_present { dir.to_string() } else { format!("none at {dir}") },
        remedy: format!("run `mount -t bpf bpf {dir}`"),
    }
}

/// Where control groups v2 are mounted.
pub(super) fn cgroup_root() -> Option<PathBuf> {
    let mounts = read("/proc/self/mountinfo")?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let path = mount.split(' ').nth(4)?;
        kind.starts_with("cgroup2 ").then(|| PathBuf::from(path.replace("\\040", " ")))
    })
}

fn cgroup() -> Finding {
    let root = cgroup_root();
    Finding {
        name: "control groups v2",
        is_required: true,
        is_present: root.is_some(),
        detail: root.map_or("not mounted".into(), |path| path.display().to_string()),
        remedy: "run `mount -t cgroup2 none /sys/fs/cgroup/unified` (make the directory first)"
            .into(),
    }
}

fn jit() -> Finding {
    let value = read("/proc/sys/net/core/bpf_jit_enable");
    Finding {
        name: "BPF compiler (JIT)",
        is_required: true,
        is_present: value.as_deref() != Some("0"),
        detail: format!("net.core.bpf_jit_enable = {}", value.as_deref().unwrap_or("always on")),
        remedy: "run `sysctl net.core.bpf_jit_enable=1`".into(),
    }
}

fn ecn() -> Finding {
    let value = read("/proc/sys/net/ipv4/tcp_ecn").unwrap_or_else(|| "unknown".into());
    Finding {
        name: "ECN",
        is_required: false,
        is_present: value == "1",
        detail: format!(
            "net.ipv4.tcp_ecn = {value}; sockets that have D2TCP before they connect or listen \
             negotiate ECN by themselves"
        ),
        remedy: "run `sysctl net.ipv4.tcp_ecn=1` for applications that choose D2TCP after connect"
            .into(),
    }
}

fn program() -> Finding {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("ip")).find(|ip| ip.is_file());
    Finding {
        name: "ip",
        is_required: false,
        is_present: found.is_some(),
        detail: found.map_or("not installed".into(), |path| path.display().to_string()),
        remedy: "install iproute2, for --route".into(),
    }
}
