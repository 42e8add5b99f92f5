"""The recipes of `punctual sweep emit`, run by their engines."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import punctual
from conftest import NO_HQ, assert_same, command, one_node_slurm, program


def emitted(engine, *options):
    """Writes the script of the sweep that is planned in `plan`, and returns its environment."""
    script = command("sweep", "emit", engine, "plan", *options).stdout
    with open("sweep.sh", "w") as file:
        file.write(script)
    # The script takes one program.
    with open("punctual", "w") as file:
        file.write('#!/bin/sh\nexec {} "$@"\n'.format(" ".join(f"'{word}'" for word in program())))
    os.chmod("punctual", 0o755)
    return {**os.environ, "PUNCTUAL": os.path.abspath("punctual")}


@pytest.fixture
def planned(two_hundred):
    """A sweep of 200 runs, planned in `plan`."""
    assert punctual.plan(two_hundred, "plan")["tasks"] == 200


@pytest.mark.skipif(shutil.which("parallel") is None, reason="GNU parallel is missing")
def test_gnu_parallel(planned, one_process):
    env = emitted("parallel", "--jobs", "2")
    subprocess.run(["sh", "sweep.sh", "--out", "two", "--quiet"], env=env, check=True)
    assert_same(one_process, "two")


@pytest.mark.skipif(shutil.which("parallel") is None, reason="GNU parallel is missing")
def test_a_script_does_all_rounds_of_a_capacity_search(scenario):
    change = {"network.rate": "1Gbps", "traffic.deadlines": "700us"}
    question = {"vary": "traffic.senders", "until": "deadlines_met >= 99%", "to": 5}
    punctual.capacity(scenario, out="one", set=change, progress=False, **question)
    punctual.plan(scenario, "plan", set=change, **question)
    env = emitted("parallel", "--jobs", "2")
    subprocess.run(["sh", "sweep.sh", "--out", "two", "--quiet"], env=env, check=True)
    assert punctual.status("plan")["round"] >= 1
    assert_same("one", "two")


def test_two_slurms_run_beside_each_other():
    """As two runs of these tests at once on one machine."""
    with one_node_slurm() as one, one_node_slurm() as other:
        for config in (one, other):
            env = {**os.environ, "SLURM_CONF": config}
            job = ["sbatch", "--wait", "--output=/dev/null", "--wrap", f"test $SLURM_CONF = {config}"]
            subprocess.run(job, env=env, check=True, timeout=60)


def test_slurm_array(planned, one_process, slurm):
    env = emitted("slurm", "--jobs", "2")
    env["SLURM_CONF"] = slurm
    subprocess.run(["sh", "sweep.sh", "--out", "two", "--quiet"], env=env, check=True, timeout=120)
    assert_same(one_process, "two")


@pytest.mark.skipif(shutil.which("hq") is None, reason=NO_HQ)
def test_hyperqueue(planned, one_process, tmp_path):
    env = emitted("hyperqueue", "--jobs", "2")
    env["HQ_SERVER_DIR"] = str(tmp_path / "hq")
    server = subprocess.Popen(["hq", "server", "start"], env=env)
    worker = subprocess.Popen(["hq", "worker", "start", "--wait-between-servers=1s"], env=env)
    try:
        subprocess.run(["sh", "sweep.sh", "--out", "two", "--quiet"], env=env, check=True)
    finally:
        worker.terminate()
        server.terminate()
    assert_same(one_process, "two")


def test_hyperqueue_without_its_program(planned, one_process, tmp_path):
    """PyPI has HyperQueue's server and workers but not its program `hq`, so a stand-in reads the
    script's command line."""
    pytest.importorskip("hyperqueue")
    env = emitted("hyperqueue", "--jobs", "2")
    stand_in = Path(__file__).with_name("hq_stand_in.py")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "hq").write_text(f"#!/bin/sh\nexec '{sys.executable}' '{stand_in}' \"$@\"\n")
    (programs / "hq").chmod(0o755)
    env["PATH"] = f"{programs}:{env['PATH']}"
    subprocess.run(["sh", "sweep.sh", "--out", "two", "--quiet"], env=env, check=True, timeout=120)
    assert_same(one_process, "two")


def test_the_job_for_kubernetes(planned, one_process):
    """Without Kubernetes: the command of the job's pods, once for each index."""
    yaml = pytest.importorskip("yaml")
    env = emitted("kubernetes", "--jobs", "4")
    with open("sweep.sh") as file:
        job = yaml.safe_load(file)
    assert job["kind"] == "Job" and job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["completions"] == 16 and job["spec"]["parallelism"] == 4
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    # The sweep is mounted at /sweep.
    (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
    assert mount["mountPath"] == "/sweep" and mount["name"] == volume["name"]
    plan = os.path.abspath("plan")
    line = container["command"] + [word.replace("/sweep", plan) for word in container["args"]]
    env["PATH"] = f"{os.getcwd()}:{env['PATH']}"
    for index in range(16):
        subprocess.run(line, env={**env, "JOB_COMPLETION_INDEX": str(index)}, check=True)
    punctual.merge("plan", out="two")
    assert_same(one_process, "two")


def test_dask_on_slurm(two_hundred, one_process, slurm, monkeypatch):
    """The recipe of docs/how-to/cluster.md, with workers that Slurm starts after the call."""
    distributed = pytest.importorskip("distributed")
    jobqueue = pytest.importorskip("dask_jobqueue")
    import punctual.dask

    monkeypatch.setenv("SLURM_CONF", slurm)
    options = {"scheduler_options": {"dashboard_address": None}, "log_directory": "logs"}
    with jobqueue.SLURMCluster(
        cores=1, memory="500MB", walltime="00:10:00", python=sys.executable, **options
    ) as cluster, distributed.Client(cluster) as client:
        cluster.scale(2)
        punctual.dask.sweep(two_hundred, client=client, out="two", progress=False)
    assert_same(one_process, "two")
