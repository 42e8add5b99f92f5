"""The recipes of `punctual sweep emit`, run by their engines."""

import os
import re
import shutil
import subprocess

import pytest

import punctual
from conftest import assert_same, command, program


def emitted(engine, scenario, *options):
    """A planned sweep and its script."""
    scenario["run"]["repetitions"] = 25
    scenario["sweep"] = {"traffic": {"senders": [2, 3, 4, 5]}}
    assert punctual.plan(scenario, "plan")["tasks"] == 200
    script = command("sweep", "emit", engine, "plan", *options).stdout
    with open("sweep.sh", "w") as file:
        file.write(script)
    # The script takes one program.
    with open("punctual", "w") as file:
        file.write('#!/bin/sh\nexec {} "$@"\n'.format(" ".join(f"'{word}'" for word in program())))
    os.chmod("punctual", 0o755)
    return {**os.environ, "PUNCTUAL": os.path.abspath("punctual")}


@pytest.mark.skipif(shutil.which("parallel") is None, reason="SKIPPED: GNU parallel is missing")
def test_gnu_parallel(scenario):
    env = emitted("parallel", scenario, "--jobs", "2")
    subprocess.run(["sh", "sweep.sh", "--out", "two", "--quiet"], env=env, check=True)
    punctual.compare(scenario, out="one", progress=False)
    assert_same("one", "two")


@pytest.mark.skipif(shutil.which("sbatch") is None, reason="SKIPPED: Slurm is missing")
def test_slurm_array(scenario, slurm):
    env = emitted("slurm", scenario, "--jobs", "2")
    env["SLURM_CONF"] = slurm
    subprocess.run(["sh", "sweep.sh", "--out", "two", "--quiet"], env=env, check=True, timeout=120)
    punctual.compare(scenario, out="one", progress=False)
    assert_same("one", "two")


@pytest.mark.skipif(shutil.which("hq") is None, reason="SKIPPED: HyperQueue is missing")
def test_hyperqueue(scenario, tmp_path):
    env = emitted("hyperqueue", scenario, "--jobs", "2")
    env["HQ_SERVER_DIR"] = str(tmp_path / "hq")
    server = subprocess.Popen(["hq", "server", "start"], env=env)
    worker = subprocess.Popen(["hq", "worker", "start", "--wait-between-servers=1s"], env=env)
    try:
        subprocess.run(["sh", "sweep.sh", "--out", "two", "--quiet"], env=env, check=True)
    finally:
        worker.terminate()
        server.terminate()
    punctual.compare(scenario, out="one", progress=False)
    assert_same("one", "two")


def test_tasks_of_the_hyperqueue_script_run_on_hyperqueue(scenario):
    """PyPI has the engine without its program `hq`: the script's command, through the library."""
    hyperqueue = pytest.importorskip("hyperqueue")
    env = emitted("hyperqueue", scenario, "--jobs", "2")
    with open("sweep.sh") as file:
        script = file.read()
    command_line = re.search(r"-- sh -c \\\n +'(.*)'", script)
    last = re.search(r"--array=0-(\d+)", script)
    assert command_line and last, script
    variables = {"PUNCTUAL": env["PUNCTUAL"], "DIR": os.path.abspath("plan")}
    with hyperqueue.LocalCluster() as cluster:
        cluster.start_worker()
        client = cluster.client()
        job = hyperqueue.Job()
        for task in range(int(last[1]) + 1):
            line = command_line[1].replace("$HQ_TASK_ID", str(task))
            job.program(["sh", "-c", line], env=variables)
        assert client.wait_for_jobs([client.submit(job)])
    command("sweep", "merge", "plan", "--out", "two", "--quiet")
    punctual.compare(scenario, out="one", progress=False)
    assert_same("one", "two")


def test_kubernetes_manifest_is_yaml(scenario):
    yaml = pytest.importorskip("yaml")
    emitted("kubernetes", scenario, "--jobs", "4")
    with open("sweep.sh") as file:
        job = yaml.safe_load(file)
    assert job["kind"] == "Job" and job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["completions"] == 16 and job["spec"]["parallelism"] == 4
