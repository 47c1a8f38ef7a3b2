"""Without privilege: a typed error lists what is missing; recordings still replay."""

import ctypes
import os
import subprocess
import sys

import pytest

from accel_magic import trace

pytestmark = pytest.mark.live

DROPPED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
TRACE = """
import sys, accel_magic
try:
    with accel_magic.trace(sys.argv[1]):
        print("ran")
except accel_magic.MachineError as error:
    print(error)
"""


@pytest.fixture(scope="module", params=[DROPPED, NOBODY], ids=["root without capabilities", "nobody"])
def before(request):
    """Command prefix for running without privilege."""
    script = "import os, sys, accel_magic; print(sys.prefix if os.access(sys.executable, os.X_OK) else None)"
    done = subprocess.run(
        [*request.param, sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd="/"
    )
    if done.stdout.strip() != sys.prefix:
        pytest.skip(f"that user may not run this interpreter or import this package: {sys.executable}")
    return request.param


@pytest.mark.parametrize("probe", ["tracepoint:syscalls:sys_enter_getppid", "profile:hz:99", "kprobe:vfs_read"])
def test_tracing_without_privilege_is_a_typed_error(python, before, probe):
    printed = python(TRACE, probe, before=before)

    assert "ran" not in printed
    assert "fix: " in printed
    assert "Traceback" not in printed
    assert "Operation not permitted" not in printed


def test_the_missing_capabilities_are_listed(python):
    printed = python(TRACE, "tracepoint:syscalls:sys_enter_getppid", before=DROPPED)

    assert "no privilege to trace" in printed
    assert "CAP_BPF and CAP_PERFMON" in printed


def test_functions_of_the_own_process_need_no_privilege(python, before):
    """The quickstart's cell."""
    script = """
import accel_magic, ctypes
libc = ctypes.CDLL(None)
with accel_magic.trace("latency:uprobe:libc:malloc", "uprobe:libc:atoi", mode="count") as t:
    strings = ["x" * (600 + number % 50) for number in range(20_000)]
    for number in range(30): libc.atoi(b"1")
hits = t.result.counts["hits"].droplevel("probe")
print(hits["malloc"] >= 20_000, hits["atoi"], *set(t.result.probes["way"]))
"""

    assert python(script, before=before).split() == ["True", "30", "patched"]


def test_two_capabilities_and_reading_tracefs_are_enough(python):
    script = """
import os, accel_magic
with accel_magic.trace("tracepoint:syscalls:sys_enter_getppid", "uprobe:libc:atoi") as t:
    import ctypes
    libc = ctypes.CDLL(None)
    for i in range(30): os.getppid(); libc.atoi(b"1")
print(*t.result.counts["hits"])
"""
    keep = "+bpf,+perfmon,+dac_read_search"
    before = ("setpriv", "--reuid=0", f"--bounding-set=-all,{keep}", f"--inh-caps=-all,{keep}")

    assert python(script, before=before).split() == ["30", "30"]


def test_a_recording_replays_without_privilege_and_without_bcc(python, tmp_path, before):
    path = tmp_path / "recorded.parquet"
    with trace("tracepoint:syscalls:sys_enter_getppid", "latency:uprobe:libc:usleep", save=path) as t:
        libc = ctypes.CDLL(None)
        for _ in range(40):
            os.getppid()
            libc.usleep(2000)
    script = """
import os, sys, accel_magic
result = accel_magic.replay(sys.argv[1])
print(result.hits, len(result.events), result.latency["count"].item())
print(str(result).splitlines()[0])
compiler = sys.modules.get("accel_magic.kernel.bcc.compiler")
assert compiler is None or not compiler._servers
"""
    copy = "/tmp/accel_magic_replayed.parquet"
    with open(copy, "wb") as file:  # noqa: PTH123
        file.write(path.read_bytes())
    os.chmod(copy, 0o644)  # noqa: PTH101
    try:
        printed = python(script, copy, before=before).splitlines()
    finally:
        os.unlink(copy)  # noqa: PTH108

    assert printed[0].split() == ["80", "80", "40"]
    assert printed[1].startswith(f"REPLAY: recorded on Linux {os.uname().release}")
    assert t.result.hits == 80
