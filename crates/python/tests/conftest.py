import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

NO_HQ = "HyperQueue's program hq, which no package registry has, is missing"
BUSY = "other work is on the machine"
MAY_SKIP = (NO_HQ, BUSY)
"""How the reasons begin that are allowed where skips are failures: what no setup can install, and
measurements for which the machine is too busy."""


def skips_are_failures():
    return os.environ.get("PUNCTUAL_NO_SKIPS", "0") not in ("", "0")


def reason_of(report):
    """Why a test, or all tests of a file, were skipped."""
    return report.longrepr[2].removeprefix("Skipped: ")


def forbid(report):
    """Makes a skip a failure where PUNCTUAL_NO_SKIPS is set, unless its reason is allowed."""
    if report.skipped and skips_are_failures() and not reason_of(report).startswith(MAY_SKIP):
        why = f"skipped, which PUNCTUAL_NO_SKIPS forbids: {reason_of(report)}"
        report.outcome, report.longrepr = "failed", why
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return forbid((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return forbid((yield))


def pytest_terminal_summary(terminalreporter):
    """A line for each skip, which `cargo xtask test python` counts."""
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"SKIPPED: {report.nodeid}: {reason_of(report)}")


SCENARIO = {
    "name": "tiny",
    "transports": ["tcp", "ndp"],
    "network": {"topology": "star", "hosts": 6, "rate": "10Gbps", "delay": "1us"},
    "traffic": [
        {"pattern": "incast", "senders": 4, "sizes": "30KB", "deadlines": "1ms"},
    ],
    "run": {"duration": "5ms", "repetitions": 2},
}


@pytest.fixture
def scenario():
    return {**SCENARIO, "run": dict(SCENARIO["run"])}


@pytest.fixture
def two_hundred(scenario):
    """200 runs."""
    scenario["run"]["repetitions"] = 25
    scenario["sweep"] = {"traffic": {"senders": [2, 3, 4, 5]}}
    return scenario


@pytest.fixture(scope="session")
def one_process(tmp_path_factory):
    """The results of the 200 runs by one thread of one process: what every other way must equal."""
    import punctual

    scenario = {**SCENARIO, "run": {**SCENARIO["run"], "repetitions": 25}}
    scenario["sweep"] = {"traffic": {"senders": [2, 3, 4, 5]}}
    out = tmp_path_factory.mktemp("one-process") / "out"
    assert len(punctual.compare(scenario, out=out, threads=1, progress=False)) == 200
    return out


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def free_ports(count):
    """Ports that nothing uses, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for any_port in sockets:
            any_port.bind(("127.0.0.1", 0))
        return [any_port.getsockname()[1] for any_port in sockets]
    finally:
        for any_port in sockets:
            any_port.close()


@contextlib.contextmanager
def one_node_slurm():
    """A Slurm of one node, on ports and in a directory of its own; the path of its configuration."""
    if any(shutil.which(name) is None for name in ("sbatch", "slurmctld", "slurmd", "munged")):
        pytest.skip("Slurm is missing")
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root")
    place = Path(tempfile.mkdtemp(prefix="punctual-slurm-"))
    name, cores = socket.gethostname().split(".")[0], os.cpu_count() or 1
    controller, node = free_ports(2)
    config = place / "slurm.conf"
    config.write_text(
        f"""
ClusterName=punctual
SlurmctldHost={name}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
ReturnToService=2
NodeName={name} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=1024 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
    )
    for folder in ("state", "spool"):
        (place / folder).mkdir()
    key = place / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    env = {**os.environ, "SLURM_CONF": str(config)}
    munge = [f"--{kind}-file={place}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
    children = [
        subprocess.Popen(["munged", "--foreground", "--force", f"--socket={place}/munge.socket", *munge])
    ]
    try:
        for _ in range(100):
            if (place / "munge.socket").exists():
                break
            time.sleep(0.1)
        children += [subprocess.Popen([daemon, "-D"], env=env) for daemon in ("slurmctld", "slurmd")]
        for _ in range(300):
            nodes = subprocess.run(["sinfo", "-h", "-o", "%t"], env=env, capture_output=True, text=True)
            if nodes.stdout.strip() == "idle":
                break
            time.sleep(0.1)
        else:
            pytest.skip("Slurm does not start here: " + nodes.stderr.strip())
        yield str(config)
    finally:
        for child in reversed(children):
            child.terminate()
            child.wait()
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def slurm():
    with one_node_slurm() as config:
        yield config


def program():
    """The `punctual` that the sources were built to, or that of the package."""
    given = os.environ.get("PUNCTUAL_PROGRAM")
    return [given] if given else [sys.executable, "-m", "punctual"]


def command(*args, code=0):
    done = subprocess.run([*program(), *map(str, args)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def files(directory):
    """Every file below a directory, but those that name the machine and the lock."""
    root = Path(directory)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in ("host.json", ".lock")
    }


def assert_same(a, b):
    a, b = files(a), files(b)
    assert a.keys() == b.keys()
    assert [name for name in a if a[name] != b[name]] == []
