"""The options of a flame trace, and its plan on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from accel_magic.errors import ProbeError
from accel_magic.probes import grammar, presets
from accel_magic.probes.grammar import HIGHEST_RATE, LONGEST_US, PREFIX_EXCLUDE, PREFIX_LATENCY

if TYPE_CHECKING:
    from accel_magic.devices.targets import Asked
    from accel_magic.probes.plan import Plan

Sampler = Literal["auto", "bpf", "thread"]
_MEASURED = ("kprobe", "uprobe")
_SYSCALL = "sys_enter_"
_LONGEST_INTERVAL_MS, _LARGEST_SUBSAMPLE = 60_000, 1_000_000_000


@dataclass(frozen=True)
class FlameOptions:
    """The options of a flame trace; each is also an option of `%%flame`.

    Attributes:
        rate: Samples per second on each busy processor.
        off_cpu: Record waits too: True for all, a number for waits of at least that many microseconds; False for none.
        by_thread: Show each thread's stacks separately.
        probes: What else to trace, as on the `%%ktrace` line; calls are measured if possible.
        gpu_kernels: Show the time of GPU kernels under the Python line that launched them.
        device: Where GPU kernels run: `cuda`, `cpu` for the simulated device, `auto` for a GPU if there is one.
        xe: Also run intel/iaprof around the traced code, for Intel's Xe GPUs.
        interval: With `xe`: length of iaprof's intervals, ms; None for its default, 10. The end of the trace waits for
            two of them.
        eu_stall_subsample: With `xe`: iaprof keeps one in this many samples; None for its default, 100.
        sampler: `bpf` samples in the kernel, `thread` from a thread of this process, which needs no privilege; `auto`
            uses `bpf` if this machine allows it.
        all_frames: Keep the frames of the notebook and of the tracer below the cell.
        max_events: The maximum number of samples, waits and calls.
        buffer: Total size of the ring buffers in MiB.

    """

    rate: int = 99
    off_cpu: bool | float = False
    by_thread: bool = False
    probes: tuple[str, ...] = ()
    gpu_kernels: bool = False
    device: Asked = "auto"
    xe: bool = False
    interval: int | None = None
    eu_stall_subsample: int | None = None
    sampler: Sampler = "auto"
    all_frames: bool = False
    max_events: int = 4_000_000
    buffer: float = 64.0

    def __post_init__(self) -> None:
        """Check the options. Raises ProbeError."""
        if not 1 <= self.rate <= HIGHEST_RATE or self.rate != int(self.rate):
            raise ProbeError(
                f"a rate of {self.rate} Hz is not supported",
                fix=f"use a whole number, 1 to {HIGHEST_RATE}; 99 is usual",
                code="flame.bad-rate",
            )
        if not 0 <= self.off_cpu <= LONGEST_US:
            raise ProbeError(
                f"off_cpu={self.off_cpu} is out of range",
                fix=f"use 0 to {LONGEST_US:,} microseconds",
                code="flame.bad-off-cpu",
            )
        for name, known in (("sampler", get_args(Sampler)), ("device", ("auto", "cuda", "cpu"))):
            if getattr(self, name) not in known:
                raise ProbeError(
                    f"{name}={getattr(self, name)!r} is not known",
                    fix=f"use one of {', '.join(known)}",
                    code="option.unknown-value",
                )
        self._check_iaprof()
        if self.sampler == "thread" and self.probes:
            raise ProbeError(
                "the thread sampler traces no probes",
                why="probes need BPF, which only the sampler bpf uses",
                fix="remove --sampler thread or --with",
                code="flame.probes-need-bpf",
            )

    def _check_iaprof(self) -> None:
        """Check the options of iaprof. Raises ProbeError."""
        for name, most in (("interval", _LONGEST_INTERVAL_MS), ("eu_stall_subsample", _LARGEST_SUBSAMPLE)):
            value = getattr(self, name)
            if value is None:
                continue
            option = name.replace("_", "-")
            if not self.xe:
                raise ProbeError(
                    f"--{option} needs --xe",
                    why="it is an option of iaprof, which runs only with --xe",
                    fix=f"add --xe (in Python: xe=True), or remove --{option}",
                    code="flame.needs-xe",
                )
            if not 1 <= value <= most or value != int(value):
                raise ProbeError(
                    f"--{option} {value} is out of range",
                    fix=f"use a whole number, 1 to {most:,}",
                    code=f"flame.{option}",
                )

    @property
    def waits(self) -> bool:
        """Whether to record waits; 0 means all of them."""
        return self.off_cpu is not False

    def words(self) -> tuple[str, ...]:
        """All probes."""
        shortest = 0 if self.off_cpu is True else round(self.off_cpu)
        waits = (f"offcpu:us:{shortest}" if shortest else "offcpu",) if self.waits else ()
        return (f"profile:hz:{int(self.rate)}", *waits, *map(measured, self.probes))

    def plan(self) -> Plan:
        """Match the probes against this machine.

        Raises:
            ProbeError: A probe is invalid or matches nothing.
            MachineError: This machine lacks something that the trace needs.

        """
        from accel_magic.api import plans

        return plans.make(self.words(), stacks=True, max_events=self.max_events, buffer_mib=self.buffer)


def measured(word: str) -> str:
    """Rewrite a probe to measure its calls from entry to return if possible: such calls become spans.

    A text that is not a probe stays as it is, and matching reports it.
    """
    if word.startswith((PREFIX_EXCLUDE, PREFIX_LATENCY)) or presets.is_preset(word):
        return word
    try:
        spec = grammar.parse(word)
    except ProbeError:
        return word
    calls = spec.kind == "tracepoint" and spec.target == "syscalls" and spec.name.startswith(_SYSCALL)
    return PREFIX_LATENCY + word if spec.kind in _MEASURED or calls else word
