"""Names of probes as other tools print them: `kprobe:intel_vpu:ivpu_open`, `syscalls:sys_enter_read`, `vfs_read`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.probes.plan import ProbePoint

if TYPE_CHECKING:
    from accel_magic.probes.plan import Kind

_KINDS: Final[dict[str, Kind]] = {
    "kprobe": "kprobe",
    "kfunc": "kprobe",
    "fentry": "kprobe",
    "kretprobe": "kretprobe",
    "kretfunc": "kretprobe",
    "fexit": "kretprobe",
    "uprobe": "uprobe",
    "uretprobe": "uretprobe",
    "usdt": "usdt",
    "tracepoint": "tracepoint",
    "rawtracepoint": "tracepoint",
    "rawtp": "tracepoint",
    "software": "tracepoint",
    "hardware": "tracepoint",
    "profile": "tracepoint",
    "interval": "tracepoint",
    "iter": "tracepoint",
    "watchpoint": "tracepoint",
    "asyncwatchpoint": "tracepoint",
}
"""bpftrace's kinds of probes, and what they are called here."""

PROBE_TEXT: Final = "(?:" + "|".join(_KINDS) + r"):[^\s\[\],]+"
"""Regular expression of a probe as bpftrace's `probe` prints it."""

_PROBE: Final = re.compile(PROBE_TEXT)
_PERF_PROBE: Final = re.compile(r"(.+?)(__return)?(?:_\d+)?")


@dataclass(frozen=True)
class Name:
    """What becomes one probe point."""

    probe: str
    kind: Kind
    target: str
    function: str
    latency: bool = False

    def point(self, number: int) -> ProbePoint:
        """Make a point of a plan of it."""
        return ProbePoint(number, self.probe, self.kind, self.target, self.function, latency=self.latency)


def is_probe(text: str) -> bool:
    """Whether `text` is a probe as bpftrace names it."""
    return _PROBE.fullmatch(text) is not None


def of_bpftrace(probe: str) -> Name:
    """Take `kprobe:intel_vpu:ivpu_open` apart: `KIND:[TARGET:]FUNCTION`, for USDT `KIND:PATH:PROVIDER:NAME`."""
    kind, _, rest = probe.partition(":")
    first, colon, last = rest.partition(":") if kind == "usdt" else rest.rpartition(":")
    function = last if colon else rest
    return Name(probe, _KINDS[kind], first if colon else "", function or probe)


def of_function(function: str, module: str = "", *, latency: bool = False) -> Name:
    """Name a kernel function that the function tracers saw."""
    spec = f"kprobe:{module}:{function}" if module else f"kprobe:{function}"
    return Name(f"latency:{spec}" if latency else spec, "kprobe", module, function, latency)


def of_event(event: str, system: str = "") -> Name:
    """Name a trace event; with `system` where the tool prints it.

    Events that `perf probe` made (`probe:FUNCTION`, `probe_LIBRARY:FUNCTION`) are functions. System calls are always
    of the system `syscalls`.
    """
    if system == "probe" or system.startswith("probe_"):
        found = _PERF_PROBE.fullmatch(event)
        function, returns = (found[1], bool(found[2])) if found else (event, False)
        library = system.removeprefix("probe").removeprefix("_")
        kind: Kind = "uprobe" if library else "kprobe"
        if returns:
            kind = "uretprobe" if library else "kretprobe"
        return Name(f"{kind}:{library}:{function}" if library else f"{kind}:{function}", kind, library, function)
    if not system and event.startswith(("sys_enter_", "sys_exit_")):
        system = "syscalls"
    return Name(f"tracepoint:{system}:{event}" if system else f"tracepoint:{event}", "tracepoint", system, event)
