import errno
import os
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.kernel import features
from accel_magic.kernel.features import Capabilities, Tracefs


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """An empty /proc and /sys."""
    monkeypatch.setattr(features, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(features, "_SYS", tmp_path / "sys")
    return tmp_path


@pytest.fixture
def able(monkeypatch):
    """A machine where tracing works; tests break one thing."""
    held = frozenset({"CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH"})
    monkeypatch.setattr(features.sys, "platform", "linux")
    monkeypatch.setattr(features, "machine", lambda: "x86_64")
    monkeypatch.setattr(features, "kernel_release", lambda: "6.8.0-45-generic")
    monkeypatch.setattr(features, "capabilities", lambda: Capabilities(held, initial_user_namespace=True))
    monkeypatch.setattr(features, "bpf_refusal", lambda: 0)
    monkeypatch.setattr(features, "perf_event_refusal", lambda: 0)
    monkeypatch.setattr(features, "perf_event_paranoid", lambda: 2)
    monkeypatch.setattr(features, "has_attach_cookies", lambda: True)
    monkeypatch.setattr(features, "tracefs", lambda: Tracefs(Path("/sys/kernel/tracing"), readable=True))
    monkeypatch.setattr("accel_magic.kernel.bcc.bcc_location.find_bcc", lambda: None)
    return monkeypatch


def put(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def refused():
    with pytest.raises(MachineError) as raised:
        features.require_tracing()
    assert raised.value.why
    assert raised.value.fix
    return raised.value


# CapEff words: bit 2 DAC_READ_SEARCH, 21 SYS_ADMIN, 38 PERFMON, 39 BPF (capability.h).
@pytest.mark.parametrize(
    ("word", "held", "enough"),
    [
        ("0000000000000000", set(), False),
        ("0000000000200000", {"CAP_SYS_ADMIN"}, True),
        ("0000004000000000", {"CAP_PERFMON"}, False),
        ("0000008000000000", {"CAP_BPF"}, False),
        ("000000c000000000", {"CAP_BPF", "CAP_PERFMON"}, True),
        ("000000c000000004", {"CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH"}, True),
        ("00000000a80425fb", set(), False),  # what a Docker container gets by default
    ],
)
def test_capabilities_are_read_from_the_effective_set(machine, word, held, enough):
    status = f"Name:\tpython\nCapPrm:\t000001ffffffffff\nCapEff:\t{word}\nCapBnd:\t000001ffffffffff\n"
    put(machine / "proc/thread-self/status", status)

    capable = features.capabilities()

    assert capable.held == held
    assert capable.enough is enough


def test_capabilities_in_another_user_namespace_are_not_enough(machine):
    put(machine / "proc/thread-self/status", "CapEff:\t000001ffffffffff\n")
    put(machine / "proc/self/ns/user")  # any inode other than the initial namespace's

    assert not features.capabilities().enough


def test_without_proc_there_are_no_capabilities_and_unknown_values(machine):
    assert features.capabilities().held == frozenset()
    assert features.initial_pid_namespace() is None
    assert features.perf_event_paranoid() is None
    assert features.lockdown() == ""
    assert features.bpffs() is None
    assert features.tracefs() == Tracefs(None, readable=False)


def test_tracefs_is_found_at_its_own_mount_before_debugfs(machine):
    own, debug = machine / "my tracing", machine / "debug"
    (own / "events").mkdir(parents=True)
    (debug / "tracing/events").mkdir(parents=True)
    escaped = str(own).replace(" ", "\\040")
    put(machine / "proc/self/mounts", f"d {debug} debugfs rw 0 0\ntracefs {escaped} tracefs rw 0 0\n")

    assert features.tracefs() == Tracefs(own, readable=True)


def test_tracefs_inside_debugfs_is_found_when_it_has_no_mount_of_its_own(machine):
    (machine / "debug/tracing/events").mkdir(parents=True)
    put(machine / "proc/self/mounts", f"d {machine / 'debug'} debugfs rw 0 0\n")

    assert features.tracefs() == Tracefs(machine / "debug/tracing", readable=True)


def test_a_mount_without_events_is_not_tracefs(machine):
    put(machine / "proc/self/mounts", f"tracefs {machine / 'gone'} tracefs rw 0 0\n")

    assert features.tracefs() == Tracefs(None, readable=False)


def test_tracefs_that_may_not_be_listed_is_mounted_and_not_readable(machine, monkeypatch):
    def scandir(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    put(machine / "proc/self/mounts", "tracefs /sys/kernel/tracing tracefs rw 0 0\n")
    monkeypatch.setattr(features.os, "scandir", scandir)

    assert features.tracefs() == Tracefs(Path("/sys/kernel/tracing"), readable=False)


def test_bpffs_is_found_by_its_type(machine):
    put(machine / "proc/self/mounts", "bpf /a tmpfs rw 0 0\nnone /sys/fs/bpf bpf rw 0 0\n")

    assert features.bpffs() == Path("/sys/fs/bpf")


@pytest.mark.parametrize("state", ["none", "integrity", "confidentiality"])
def test_lockdown_is_the_state_in_brackets(machine, state):
    words = "none integrity confidentiality".replace(state, f"[{state}]")
    put(machine / "sys/kernel/security/lockdown", words + "\n")

    assert features.lockdown() == state


@pytest.mark.parametrize(("text", "value"), [("-1\n", -1), ("2\n", 2), ("", None), ("x\n", None)])
def test_sysctls_are_numbers_or_unknown(machine, text, value):
    put(machine / "proc/sys/kernel/perf_event_paranoid", text)
    put(machine / "proc/sys/kernel/unprivileged_bpf_disabled", text)

    assert features.perf_event_paranoid() == value
    assert features.unprivileged_bpf_disabled() == value


@pytest.mark.parametrize(
    ("probe", "path"),
    [
        (features.has_kprobes, "sys/bus/event_source/devices/kprobe/type"),
        (features.has_uprobes, "sys/bus/event_source/devices/uprobe/type"),
        (features.has_btf, "sys/kernel/btf/vmlinux"),
    ],
)
def test_kernel_features_are_detected_in_sysfs(machine, probe, path):
    before = probe()
    put(machine / path)

    assert (before, probe()) == (False, True)


@pytest.mark.parametrize(
    ("release", "version", "ring_buffer"),
    [
        ("6.18.44-fc", (6, 18), True),
        ("5.8.0-1-amd64", (5, 8), True),
        ("5.7.19", (5, 7), False),
        ("10.0", (10, 0), True),
        ("odd", (0, 0), False),
    ],
)
def test_the_kernels_version_is_compared_by_number(monkeypatch, release, version, ring_buffer):
    monkeypatch.setattr(features, "kernel_release", lambda: release)

    assert features.kernel_version() == version
    assert features.has_ring_buffer() is ring_buffer


def test_there_are_no_blockers_if_tracing_works(able):
    features.require_tracing()

    assert features.privilege_error() is None


@pytest.mark.parametrize(("system", "architecture"), [("darwin", "x86_64"), ("linux", "aarch64"), ("win32", "AMD64")])
def test_another_platform_is_an_error_that_suggests_replay(able, system, architecture):
    able.setattr(features.sys, "platform", system)
    able.setattr(features, "machine", lambda: architecture)

    error = refused()

    assert architecture in error.what
    assert "--replay" in error.fix


@pytest.mark.parametrize(("release", "cookies"), [("5.4.0-200-generic", None), ("5.10.0-30-amd64", False)])
def test_an_old_kernel_is_an_error_with_its_release(able, release, cookies):
    able.setattr(features, "kernel_release", lambda: release)
    able.setattr(features, "has_attach_cookies", lambda: cookies)

    assert release in refused().what


def test_an_old_kernel_with_cookies_backported_is_accepted(able):
    able.setattr(features, "kernel_release", lambda: "5.14.0-503.el9.x86_64")

    features.require_tracing()


def test_missing_capabilities_are_listed_with_ways_to_get_them(able):
    able.setattr(features, "capabilities", lambda: Capabilities(frozenset({"CAP_BPF"}), initial_user_namespace=True))

    error = refused()

    assert error.why.endswith("missing: CAP_PERFMON")
    assert all(word in error.fix for word in ("root", "AmbientCapabilities", "CAP_DAC_READ_SEARCH", "--replay"))
    assert features.privilege_error() is not None


def test_a_user_namespace_is_given_as_the_reason(able):
    held = frozenset({"CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"})
    able.setattr(features, "capabilities", lambda: Capabilities(held, initial_user_namespace=False))

    assert "user namespace" in refused().why


@pytest.mark.parametrize(
    ("call", "code", "paranoid", "reason"),
    [
        ("bpf", errno.EPERM, 2, "seccomp"),
        ("bpf", errno.ENOSYS, 2, "built without"),
        ("perf_event_open", errno.EPERM, 2, "seccomp"),
        ("perf_event_open", errno.EACCES, 4, "perf_event_paranoid is 4"),
    ],
)
def test_a_system_call_blocked_despite_capabilities_is_named(able, call, code, paranoid, reason):
    able.setattr(features, "bpf_refusal" if call == "bpf" else "perf_event_refusal", lambda: code)
    able.setattr(features, "perf_event_paranoid", lambda: paranoid)

    error = refused()

    assert call in error.what
    assert errno.errorcode[code] in error.what
    assert reason in error.why


def test_tracefs_that_is_not_mounted_gets_the_mount_command(able):
    able.setattr(features, "tracefs", lambda: Tracefs(None, readable=False))

    assert refused().fix == "mount -t tracefs tracefs /sys/kernel/tracing"


def test_tracefs_that_cannot_be_read_names_the_capability(able):
    able.setattr(features, "tracefs", lambda: Tracefs(Path("/t"), readable=False))

    error = refused()

    assert "/t" in error.what
    assert "CAP_DAC_READ_SEARCH" in error.why


def test_a_missing_bcc_is_reported_unchanged(able):
    missing = MachineError("BCC is not installed", why="w", fix="f", code="bcc.not-installed")

    def find():
        raise missing

    able.setattr("accel_magic.kernel.bcc.bcc_location.find_bcc", find)

    assert refused() is missing


def test_the_first_blocker_is_raised_and_all_are_listed_in_the_order_of_fixing(able):
    able.setattr(features, "kernel_release", lambda: "4.19.0")
    able.setattr(features, "capabilities", lambda: Capabilities(frozenset(), initial_user_namespace=True))
    able.setattr(features, "tracefs", lambda: Tracefs(None, readable=False))

    found = [error.what for error in features.blockers()]

    assert [what.split(":")[0] for what in found] == [
        "the kernel is too old for tracing",
        "this process has no privilege to trace",
        "tracefs is not mounted",
    ]
    assert refused().what == found[0]


@pytest.mark.parametrize(
    ("probe", "program", "link", "answer"),
    [
        (features.has_kprobe_multi, 7, -errno.EFAULT, True),
        (features.has_kprobe_multi, 7, -errno.EOPNOTSUPP, False),  # no CONFIG_FPROBE
        (features.has_kprobe_multi, 7, -errno.EINVAL, False),  # before 5.18
        (features.has_kprobe_multi, -errno.EPERM, None, None),
        (features.has_uprobe_multi, 7, -errno.EFAULT, True),
        (features.has_uprobe_multi, 7, -errno.E2BIG, False),  # before 6.6
        (features.has_attach_cookies, 7, -errno.EBADF, True),
        (features.has_attach_cookies, 7, -errno.EINVAL, False),  # before 5.15
        (features.has_attach_cookies, -errno.ENOSYS, None, False),
    ],
)
def test_link_features_are_detected_by_the_kernels_error(monkeypatch, probe, program, link, answer):
    closed = []
    monkeypatch.setattr(features, "_bpf", lambda command, attributes: program if command == 5 else link)
    monkeypatch.setattr(features.os, "close", closed.append)
    features._link_answer.cache_clear()

    try:
        assert probe() is answer
    finally:
        features._link_answer.cache_clear()
    assert closed == ([7] if program == 7 else [])


@pytest.mark.parametrize(
    ("answer", "refusal"), [(-errno.EFAULT, 0), (-errno.EACCES, errno.EACCES), (-errno.EPERM, errno.EPERM)]
)
def test_a_uprobe_is_allowed_if_the_kernel_tries_to_read_its_path(machine, monkeypatch, answer, refusal):
    put(machine / "sys/bus/event_source/devices/uprobe/type", "9\n")
    monkeypatch.setattr(features, "_system_call", lambda *arguments: answer)

    assert features.uprobe_refusal() == refusal


def test_a_kernel_without_uprobes_reports_enoent(machine):
    assert features.uprobe_refusal() == errno.ENOENT


def test_no_system_call_is_made_on_another_architecture(monkeypatch):
    # getpid is 39 on x86-64 and something else elsewhere.
    here = features._system_call(39)
    monkeypatch.setattr(features, "machine", lambda: "aarch64")

    assert here == (os.getpid() if os.uname().machine == "x86_64" else -errno.ENOSYS)
    assert features._system_call(39) == -errno.ENOSYS
