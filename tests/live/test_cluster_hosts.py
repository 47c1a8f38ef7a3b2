"""Two hosts on this machine: a Dask worker has its own network, host name and mounts, and is reached through a wire."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("distributed")

pytestmark = pytest.mark.live

CALLS = {"near": 130, "far": 1700}
SCHEDULER, WORKER = "distributed.cli.dask_scheduler", "distributed.cli.dask_worker"

CLIENT = """
import ctypes, json, os, signal, sys, time
from distributed import Client
import accel_magic

def work(n):
    import ctypes, os
    libc = ctypes.CDLL(None)
    for _ in range(n):
        libc.a64l(b"abc")
    return os.getpid()

calls = json.loads(sys.argv[2])
with Client(scheduler_file=sys.argv[1], timeout=120) as client:
    client.wait_for_workers(len(calls), timeout=240)
    workers = {facts["name"]: address for address, facts in client.scheduler_info()["workers"].items()}

    def run():
        tasks = [client.submit(work, n, workers=[workers[name]], pure=False) for name, n in calls.items()]
        return dict(zip(calls, client.gather(tasks)))

    with accel_magic.trace("latency:uprobe:libc:a64l", on=client) as t:
        run()
    nodes = t.result.nodes.set_index("node")
    events = t.result.events.groupby(["node", "host"], observed=True).size()
    whole = {
        "hosts": nodes["host"].to_dict(),
        "hits": nodes["hits"].to_dict(),
        "problems": nodes["problem"].to_dict(),
        "events": {" ".join(names): int(size) for names, size in events.items()},
        "addresses": workers,
        "headline": str(t.result).splitlines()[0],
    }
    with accel_magic.trace("latency:uprobe:libc:a64l", on=client, silence_s=10) as t:
        os.kill(run()["far"], signal.SIGKILL)
        while workers["far"] in client.scheduler_info()["workers"]:
            time.sleep(0.05)
    killed = {part.node.name: [part.problem and part.problem.code, part.recording and int(part.recording.hits.sum())]
              for part in t.result.parts}
    print(json.dumps({"whole": whole, "killed": killed}))
"""


@pytest.fixture
def hosts():
    """Two network namespaces with a wire between them; returns their names."""
    names = [f"am{os.getpid()}{side}" for side in "ab"]

    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)

    made = [ip("netns", "add", name) for name in names]
    try:
        steps = [("link", "add", "wire", "netns", names[0], "type", "veth", "peer", "name", "wire", "netns", names[1])]
        for number, name in enumerate(names, 1):
            steps += [
                ("-n", name, "addr", "add", f"10.213.77.{number}/24", "dev", "wire"),
                ("-n", name, "link", "set", "wire", "up"),
                ("-n", name, "link", "set", "lo", "up"),
            ]
        made += [ip(*step) for step in steps]
        if any(done.returncode for done in made):
            pytest.skip(f"no network namespaces: {' '.join(done.stderr.strip() for done in made)}")
        yield names
    finally:
        for name in names:
            ip("netns", "del", name)


def test_workers_on_two_hosts_are_traced_and_their_events_fetched_over_the_network(hosts, tmp_path, left_behind):
    here, there = (["nsenter", f"--net=/run/netns/{name}"] for name in hosts)  # `ip netns exec` hides tracefs
    file = tmp_path / "scheduler.json"
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    python = [sys.executable, "-P", "-m"]
    options = ["--scheduler-file", file, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory"]
    renamed = ["unshare", "--uts", "--mount", "sh", "-c", 'hostname far-away && exec "$@"', "-"]
    commands = [
        [*here, *python, SCHEDULER, "--scheduler-file", file, "--port", "0", "--no-dashboard", "--host", "10.213.77.1"],
        [*here, *python, WORKER, "--name", "near", *options, tmp_path / "near"],
        [*there, *renamed, *python, WORKER, "--name", "far", *options, tmp_path / "far"],
    ]
    started = [subprocess.Popen(command, **quiet) for command in commands]
    try:
        client = [*here, sys.executable, "-P", "-c", CLIENT, file, json.dumps(CALLS)]
        done = subprocess.run(client, capture_output=True, text=True, timeout=400, check=False)
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    whole = found["whole"]
    assert whole["problems"] == dict.fromkeys(CALLS, "")
    assert whole["hosts"] == {"near": os.uname().nodename, "far": "far-away"}
    assert whole["hits"] == CALLS
    assert whole["events"] == {f"near {os.uname().nodename}": CALLS["near"], "far far-away": CALLS["far"]}
    assert whole["headline"] == "2 of 2 nodes traced, on 2 hosts"
    assert {name: address.split(":")[1] for name, address in whole["addresses"].items()} == {
        "near": "//10.213.77.1",
        "far": "//10.213.77.2",
    }
    # Nobody else on that host reaches its agent, which ends by itself.
    assert found["killed"] == {"near": [None, CALLS["near"]], "far": ["cluster.node-gone", None]}
    assert left_behind() == set()
