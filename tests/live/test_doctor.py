"""The doctor's report on this machine, each line compared with an independent source."""

import gzip
import importlib.metadata
import json
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import fresh_python

pytestmark = pytest.mark.live

# Installs a seccomp filter that returns EPERM for one system call, then runs the rest of the command line.
REFUSE = """
import ctypes, os, struct, sys
number, libc = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True)
rules = struct.pack("<HBBI", 0x20, 0, 0, 0) + struct.pack("<HBBI", 0x15, 0, 1, number)
rules += struct.pack("<HBBI", 0x06, 0, 0, 0x00050001) + struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)
code = ctypes.create_string_buffer(rules)
program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 4, ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""


def run(*before):
    """Run the command with the prefix `before`; return its report by name, and its exit status."""
    command = [sys.executable, "-m", "accel_magic", "doctor", "--json"]
    if before:
        done = subprocess.run([*before, *command], capture_output=True, text=True, timeout=60, check=False)
    else:
        done = fresh_python.run(command)
    assert done.stderr == ""
    data = json.loads(done.stdout)
    assert data["exit_status"] == done.returncode
    return {check["name"]: check for check in data["checks"]}, done.returncode


@pytest.fixture(scope="module")
def found():
    return run()[0]


@pytest.fixture(scope="module")
def config():
    """Build configuration of the running kernel."""
    packed, plain = Path("/proc/config.gz"), Path(f"/boot/config-{platform.release()}")
    if not packed.exists() and not plain.exists():
        pytest.skip("this kernel does not publish its configuration")
    text = gzip.decompress(packed.read_bytes()).decode() if packed.exists() else plain.read_text()
    return set(re.findall(r"^(CONFIG_\w+)=[ym]$", text, re.MULTILINE))


def test_tracing_works_as_the_other_live_tests_assume():
    report, status = run()

    assert status == 0
    assert not [check for check in report.values() if check["status"] == "missing"]


def test_kprobes_are_reported_as_the_kernel_was_configured(found, config):
    assert (found["kprobes"]["status"] == "ok") is ("CONFIG_KPROBE_EVENTS" in config)


def test_kprobe_multi_is_reported_as_the_kernel_was_configured(found, config):
    newer = tuple(map(int, platform.release().split(".")[:2])) >= (5, 18)

    assert (found["kprobe_multi"]["status"] == "ok") is ("CONFIG_FPROBE" in config and newer)


def test_uprobes_are_reported_as_the_kernel_was_configured(found, config):
    newer = tuple(map(int, platform.release().split(".")[:2])) >= (6, 6)

    assert (found["uprobes"]["status"] == "ok") is ("CONFIG_UPROBE_EVENTS" in config)
    assert (found["uprobe_multi"]["status"] == "ok") is ("CONFIG_UPROBES" in config and newer)


def test_btf_is_reported_as_the_kernel_was_configured(found, config):
    assert (found["BTF"]["status"] == "ok") is ("CONFIG_DEBUG_INFO_BTF" in config)


def test_bccs_version_agrees_with_its_interpreter(found):
    script = "import bcc; print(bcc.__version__, bcc.__file__)"
    done = subprocess.run(["/usr/bin/python3", "-I", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("BCC is not the system interpreter's")
    version, path = done.stdout.split()

    assert found["BCC"]["status"] == "ok"
    assert f"{version} at {Path(path).parent}," in found["BCC"]["detail"]


def test_lockdown_is_reported_once_securityfs_is_mounted(found):
    if Path("/sys/kernel/security/lockdown").exists():
        pytest.skip("securityfs is mounted")
    script = 'mount -t securityfs s /sys/kernel/security && cat /sys/kernel/security/lockdown && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-m", "accel_magic", "doctor", "--all"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    state = re.search(r"\A.*\[(\w+)\]", done.stdout)
    if state is None:
        pytest.skip(f"securityfs cannot be mounted here, or has no lockdown: {done.stderr}")

    assert found["lockdown"]["status"] == "info"
    assert re.search(rf"^\w+ +lockdown +{state.group(1)}: ", done.stdout, re.MULTILINE)


def test_package_versions_agree_with_pip(found):
    for name in ("ipykernel", "ipython", "ipywidgets", "bokeh", "pandas"):
        assert found[name]["status"] == "ok"
        assert found[name]["detail"].startswith(importlib.metadata.version(name) + " ")


def test_without_capabilities_privileges_are_missing_and_unknowns_are_not_guessed():
    report, status = run("setpriv", "--bounding-set=-all", "--inh-caps=-all")

    assert status == 1
    assert [name for name, check in report.items() if check["status"] == "missing"] == ["privilege"]
    assert "CAP_BPF and CAP_PERFMON" in report["privilege"]["detail"]
    assert report["kprobe_multi"]["detail"].startswith("unknown")


def test_two_capabilities_are_enough_for_root_without_the_others():
    keep = "--bounding-set=-all,+bpf,+perfmon"
    report, status = run("setpriv", keep, "--inh-caps=-all")

    assert status == 0
    assert report["privilege"]["detail"].startswith("CAP_BPF, CAP_PERFMON;")


@pytest.mark.parametrize("capabilities", ["+bpf,+perfmon", "+bpf,+perfmon,+sys_admin"])
def test_uprobes_are_reported_as_possible_only_if_one_can_be_created(capabilities):
    if not Path("/sys/bus/event_source/devices/uprobe").exists():
        pytest.skip("this kernel has no uprobes")
    script = """
import ctypes
from accel_magic.kernel import bpf_syscalls, features
address = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
for line in open("/proc/self/maps"):
    places, _, offset, _, _, *path = line.split()
    start, end = (int(place, 16) for place in places.split("-"))
    if start <= address < end:
        break
try:
    bpf_syscalls.perf_uprobe(path[0], address - start + int(offset, 16), on_return=False)
except OSError as error:
    print(error.errno)
else:
    print(0)
print(features.uprobe_refusal())
"""
    command = ["setpriv", f"--bounding-set=-all,{capabilities}", "--inh-caps=-all", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    made, told = done.stdout.split()

    assert made == told


def test_root_in_a_user_namespace_is_not_taken_for_privileged(unshare):
    report, status = run(*unshare("--user", "--map-root-user"))

    assert status == 1
    assert "user namespace" in report["privilege"]["detail"]


@pytest.mark.parametrize(("call", "number"), [("bpf", 321), ("perf_event_open", 298)])
def test_a_container_policy_that_blocks_a_system_call_is_recognized(call, number):
    report, status = run(sys.executable, "-c", REFUSE, str(number))

    assert status == 1
    assert f"rejects {call}() (EPERM)" in report["privilege"]["detail"]
    assert "seccomp" in report["privilege"]["detail"]


def test_a_missing_tracefs_is_reported_with_the_mount_command(unshare):
    report, status = run(*unshare("--mount"), "sh", "-c", 'umount -a -t tracefs,debugfs; exec "$@"', "sh")

    assert status == 1
    assert report["tracefs"]["status"] == "missing"
    assert report["tracefs"]["fix"] == "mount -t tracefs tracefs /sys/kernel/tracing"


def test_a_container_with_its_own_pids_is_only_a_warning(unshare):
    report, status = run(*unshare("--pid", "--fork"))

    assert status == 0
    assert report["PID namespace"]["status"] == "warning"


def test_the_probes_leave_no_program_and_no_descriptor_behind():
    script = """
import os
from accel_magic.kernel import features
from tests.support import fresh_python
def programs():
    return sum("prog_id" in open(f"/proc/self/fdinfo/{fd}").read() for fd in os.listdir("/proc/self/fd")[:-1])
features.require_tracing()
before = os.listdir("/proc/self/fd")
for _ in range(50):
    features._link_answer.cache_clear()
    features.has_kprobe_multi(), features.has_uprobe_multi(), features.has_attach_cookies()
    features.bpf_refusal(), features.perf_event_refusal(), features.uprobe_refusal()
assert os.listdir("/proc/self/fd") == before, os.listdir("/proc/self/fd")
assert programs() == 0
"""
    fresh_python.run([sys.executable, "-c", script], check=True)
