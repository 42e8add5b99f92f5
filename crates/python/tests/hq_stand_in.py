"""The command line `hq submit` of HyperQueue 0.27, as far as `punctual sweep emit hyperqueue` uses it.

Submits to a server and a worker of HyperQueue's library. An option that is not listed is an error.
"""

import argparse
import sys

import hyperqueue
from hyperqueue.ffi.protocol import ResourceRequest


def main():
    parser = argparse.ArgumentParser(prog="hq", allow_abbrev=False)
    submit = parser.add_subparsers(required=True).add_parser("submit", allow_abbrev=False)
    submit.add_argument("--wait", action="store_true", required=True)
    submit.add_argument("--array", required=True)
    submit.add_argument("--cpus", type=int, required=True)
    submit.add_argument("--stdout", choices=["none"], required=True)
    submit.add_argument("--crash-limit", type=int, required=True)
    submit.add_argument("--env", action="append", default=[])
    submit.add_argument("command", nargs="+")
    given = parser.parse_args()
    first, last = map(int, given.array.split("-"))
    variables = dict(pair.split("=", 1) for pair in given.env)
    with hyperqueue.LocalCluster() as cluster:
        cluster.start_worker()
        client = cluster.client()
        job = hyperqueue.Job()
        for task in range(first, last + 1):
            env = {**variables, "HQ_TASK_ID": str(task)}
            resources = ResourceRequest(cpus=given.cpus)
            limit = given.crash_limit
            job.program(
                given.command, env=env, stdout=None, resources=resources, crash_limit=limit
            )
        # As `hq submit --wait`, which succeeds even if tasks fail.
        client.wait_for_jobs([client.submit(job)], raise_on_error=False)


if __name__ == "__main__":
    sys.exit(main())
