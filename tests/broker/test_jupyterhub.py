"""Several users of one JupyterHub who trace at the same time: each sees only what they do themselves."""

import json

import pytest

from tests.support import brokers, hubs, users

pytestmark = pytest.mark.skipif(bool(hubs.missing()), reason=f"{hubs.missing()} is not installed")

ROUNDS = 4
POLICY = f"""
[users]
names = []
groups = ["{hubs.GROUP}"]
"""
SETUP = """
import ctypes, json, os, subprocess, sys, threading, time
from pathlib import Path
libc = ctypes.CDLL(None)
together, name, work = Path({together!r}), {name!r}, {work!r}

def meet(where):
    "Wait until all members are here."
    (together / where / name).touch()
    while len(list((together / where).iterdir())) < {members}:
        time.sleep(0.001)

exec(f"def {{work}}(calls):\\n for _ in range(calls): os.getsid(0)")

def in_a_child(calls):
    code = f"import os\\nfor _ in range({{calls}}): os.getsid(0)\\nprint(os.getpid())"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
"""
# Everybody's calls are made while everybody's trace is attached.
TRACED = """%%ktrace {probes} --stacks=user,python -o seen
meet("{round}-begin")
Path(f"/proc/self/task/{{threading.get_native_id()}}/comm").write_text(name)
globals()[work]({calls})
child = in_a_child({calls} // 10)
for _ in range({calls} // 5):
    os.getpgid(0)
    libc.atoi(b"1")
meet("{round}-end")"""
PROBES = "tracepoint:syscalls:sys_enter_getsid latency:tracepoint:syscalls:sys_enter_getpgid uprobe:libc:atoi"
SEEN = """
frames = {frame[0] for frames in seen.by_stack().frames for frame in frames}
print(json.dumps({
    "headline": str(seen).splitlines()[0],
    "hits": seen.counts.hits.tolist(),
    "events": len(seen.events),
    "pids of others": sorted({*map(int, seen.events.pid)} - {os.getpid(), child}),
    "names": sorted({*map(str, seen.events.comm)}),
    "works": sorted(frame for frame in frames if frame.startswith("work_")),
}))"""
REFUSED = """
import accel_magic
try:
    with accel_magic.trace("tracepoint:syscalls:sys_enter_getsid"):
        pass
except accel_magic.MachineError as error:
    print(error.code)"""


@pytest.fixture(scope="module")
def hub():
    """A hub beside a broker that serves one group of its users."""
    with hubs.accounts() as (folder, files):
        broker = brokers.Broker(POLICY, files)
        hub = hubs.Hub(folder, files, {"ACCEL_MAGIC_BROKER": str(broker.socket)})
        try:
            for name in hubs.IDS:
                hub.start(name)
            yield hub, folder, broker
        finally:
            hub.stop()
            broker.stop()


def test_users_who_trace_at_once_see_exactly_their_own_calls_and_nothing_of_others(hub):
    hub, folder, broker = hub
    together = folder / "together"
    for number in range(ROUNDS):
        for where in ("begin", "end"):
            (together / f"{number}-{where}").mkdir(parents=True)
            (together / f"{number}-{where}").chmod(0o1777)
    kernels = {name: hub.kernel(name) for name in hubs.MEMBERS}
    works = {name: f"work_of_{name[3:]}" for name in hubs.MEMBERS}
    for name, kernel in kernels.items():
        kernel.run("%load_ext accel_magic")
        kernel.run(SETUP.format(together=str(together), name=name, work=works[name], members=len(hubs.MEMBERS)))

    for number in range(ROUNDS):
        calls = dict(zip(hubs.MEMBERS, (1000 + 10 * number, 3000 + 50 * number), strict=True))
        for name, kernel in kernels.items():
            kernel.start(TRACED.format(probes=PROBES, round=number, calls=calls[name]))
        for kernel in kernels.values():
            kernel.printed()
        for name, kernel in kernels.items():
            seen, own = json.loads(kernel.run(SEEN)), calls[name]
            hits = [own + own // 10, own // 5, own // 5]
            assert seen.pop("headline").endswith("scope self, 1 function patched, through the broker")
            assert seen == {
                "hits": hits,
                "events": sum(hits),
                "pids of others": [],
                "names": [name, "python"],
                "works": [works[name]],
            }

    for name in kernels:
        rights = users.rights(hub.server_of(name))
        assert len(rights) >= 3  # the server, its kernel, the reader
        assert all(found == ({hubs.IDS[name]}, {}) for found in rights.values())
    allowed = {line["uid"] for line in broker.audit() if line["what"] == "attach"}
    assert allowed == {hubs.IDS[name] for name in hubs.MEMBERS}


def test_a_user_outside_the_group_is_not_admitted(hub):
    hub, _, broker = hub
    kernel = hub.kernel(hubs.OUTSIDER)

    assert kernel.run(REFUSED).strip() == "broker.not-admitted"
    refused = {(line["uid"], line["why"]) for line in broker.audit() if line["what"] == "connect"}
    assert refused == {(hubs.IDS[hubs.OUTSIDER], "user")}
