"""What the kernel supports and allows."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING

from accel_magic.api.doctor.report import needed
from accel_magic.checks import Check
from accel_magic.errors import MachineError
from accel_magic.kernel import features

if TYPE_CHECKING:
    from collections.abc import Iterator


def platform_check() -> Check:
    """Check whether traces work on this system at all."""
    return needed("platform", features.platform_error(), f"{platform.system()} {features.machine()}")


def requirements() -> tuple[Check, ...]:
    """Check what every trace needs."""
    from accel_magic.broker import broker_socket

    return (
        platform_check(),
        needed("kernel", features.kernel_error(), f"{features.kernel_release()}: ring buffer and attach cookies"),
        *(_through_the_broker() if broker_socket.needed() else _here()),
    )


def _here() -> tuple[Check, ...]:
    return (
        needed("privilege", features.privilege_error(), _privilege_detail()),
        needed("tracefs", features.tracefs_error(), f"mounted at {features.tracefs().path}, readable"),
    )


def _through_the_broker() -> tuple[Check, ...]:
    """Check what this process may do through the broker, because it has no privilege itself."""
    from accel_magic.broker import broker_client

    try:
        allowed = broker_client.connection().policy.probes
    except MachineError as error:
        return (needed("privilege", error, ""),)
    what = ", ".join(kind for kind in allowed.kinds if kind != "tracepoint")
    detail = f"none, but a broker traces this user's own processes: {what}, {', '.join(allowed.tracepoints)}"
    return (Check("privilege", "ok", detail),)


def checks() -> tuple[Check, ...]:
    """Check what can be traced, and what limits tracing."""
    return (
        *_probes(),
        _btf(),
        _bpffs(),
        _lockdown(),
        _perf_event_paranoid(),
        _unprivileged_bpf(),
        _pid_namespace(),
    )


def _privilege_detail() -> str:
    held = ", ".join(sorted(features.capabilities().held))
    return f"{held}; this process may load BPF programs and open perf events"


def _probes() -> Iterator[Check]:
    kprobes, multi = features.has_kprobes(), features.has_kprobe_multi()
    if kprobes:
        yield Check("kprobes", "ok", "kernel functions can be traced")
    elif multi:
        yield Check("kprobes", "info", "not in this kernel; kprobe_multi traces kernel functions instead")
    else:
        yield Check(
            "kprobes",
            "warning",
            "not in this kernel: functions of the kernel and of drivers cannot be traced; tracepoints, "
            "syscalls, uprobes and USDT can",
            "boot a kernel with CONFIG_KPROBES and CONFIG_FPROBE",
        )
    instead = "functions are attached one by one, which takes longer" if kprobes else "and no kprobes either"
    yield _multi("kprobe_multi", multi, "thousands of kernel functions attach in one call", instead)
    yield from _uprobes()


def _uprobes() -> Iterator[Check]:
    uprobes, multi = features.has_uprobes(), features.has_uprobe_multi()
    use = "functions of libraries and programs, and USDT, can be traced"
    if not uprobes:
        detail = "not in this kernel: libraries cannot be traced; tracepoints and syscalls can"
        yield Check("uprobes", "warning", detail, "boot a kernel with CONFIG_UPROBE_EVENTS")
    elif multi is None or not features.uprobe_refusal():
        yield Check("uprobes", "ok", use)
    elif multi:
        yield Check("uprobes", "ok", f"{use}, with uprobe_multi only: perf uprobes need CAP_SYS_ADMIN in this kernel")
    else:
        detail = "this kernel requires CAP_SYS_ADMIN: libraries cannot be traced; tracepoints and syscalls can"
        yield Check("uprobes", "warning", detail, "add CAP_SYS_ADMIN, or boot Linux 6.6 or newer")
    instead = "functions are attached one by one, which takes longer" if uprobes else "and no uprobes either"
    yield _multi("uprobe_multi", multi, "many functions of a library attach in one call", instead)


def _multi(name: str, offered: bool | None, use: str, instead: str) -> Check:
    if offered is None:
        return Check(name, "info", "unknown: checking needs the privilege to load BPF programs")
    return Check(name, "ok", use) if offered else Check(name, "info", f"not in this kernel: {instead}")


def _btf() -> Check:
    if features.has_btf():
        return Check("BTF", "ok", "the kernel describes its types at /sys/kernel/btf/vmlinux")
    return Check(
        "BTF",
        "info",
        "not in this kernel; the scopes `self` and PID, and your own programs that read kernel structs, need it",
    )


def _bpffs() -> Check:
    mounted = features.bpffs()
    if mounted is not None:
        return Check("bpffs", "ok", f"mounted at {mounted}")
    detail = "not mounted; accel_magic does not need it"
    return Check("bpffs", "info", detail, "mount -t bpf bpf /sys/fs/bpf (for other tools)")


def _lockdown() -> Check:
    state = features.lockdown()
    if state == "confidentiality":
        detail = "confidentiality: no kprobes, most of tracefs is closed, BPF cannot read kernel memory"
        return Check("lockdown", "warning", detail, "boot with lockdown=integrity, or without lockdown")
    if state:
        return Check("lockdown", "ok", f"{state}: does not limit tracing")
    detail = (
        "unknown: /sys/kernel/security/lockdown is not readable; only lockdown `confidentiality` would limit tracing"
    )
    return Check("lockdown", "info", detail, "mount -t securityfs securityfs /sys/kernel/security (to see it)")


def _perf_event_paranoid() -> Check:
    value = features.perf_event_paranoid()
    if value is None:
        return Check("perf_event_paranoid", "info", "this kernel has no such setting")
    refusal = features.perf_event_refusal()
    if not refusal:
        return Check("perf_event_paranoid", "ok", f"{value}; perf_event_open works for this process")
    detail = f"{value}; perf_event_open is refused to this process ({os.strerror(refusal)}), see privilege"
    return Check("perf_event_paranoid", "info", detail)


def _unprivileged_bpf() -> Check:
    value = features.unprivileged_bpf_disabled()
    detail = "this kernel has no such setting" if value is None else f"{value}; tracing needs privilege at any value"
    return Check("unprivileged_bpf_disabled", "info", detail)


def _pid_namespace() -> Check:
    initial = features.initial_pid_namespace()
    if initial is None:
        return Check("PID namespace", "info", "unknown: /proc does not show it")
    if initial:
        return Check("PID namespace", "ok", "the initial one: process ids here are those that the kernel reports")
    detail = "not the initial one (a container): the kernel programs see the host's process ids, not those shown here"
    return Check("PID namespace", "warning", detail, "start the container with --pid=host")
