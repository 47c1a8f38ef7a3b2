"""The options of a flame trace, and its plan on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from accel_magic import subsystems
from accel_magic.api.option_table import check_choices, count, documented, mebibytes, option, positive
from accel_magic.errors import ProbeError
from accel_magic.probes import grammar, presets
from accel_magic.probes.grammar import HIGHEST_RATE, LONGEST_US, PREFIX_EXCLUDE, PREFIX_LATENCY

if TYPE_CHECKING:
    from accel_magic.devices.targets import Asked
    from accel_magic.probes.plan import Plan

Sampler = Literal["auto", "bpf", "thread"]
_MEASURED = ("kprobe", "uprobe")
_SYSCALL = "sys_enter_"


def _rate(text: str) -> int:
    return int(positive(text, int, "a whole number of samples per second"))


def _milliseconds(text: str) -> int:
    return int(positive(text, int, "a whole number of milliseconds"))


def _microseconds(text: str) -> float:
    return float(positive(text, float, "a positive number of microseconds"))


@documented
@dataclass(frozen=True)
class FlameOptions:
    """The options of a flame trace; each is also an option of `%%flame`."""

    rate: int = option(99, "samples per second on each busy processor", metavar="HZ", kinds=(int,), convert=_rate)
    off_cpu: bool | float = option(
        False,
        "record waits too, by reason; MIN_US: only waits of at least MIN_US microseconds",
        "also record waits with duration and reason: a lock, the GIL, an ioctl, IO, sleep, a page fault, no free CPU; "
        "with a number, only waits of at least that many microseconds",
        metavar="MIN_US",
        kinds=(bool, float),
        on_line={"nargs": "?", "const": True},
        convert=_microseconds,
        negated="record no waits",
    )
    by_thread: bool = option(
        False, "show each thread's stacks separately", "show each thread separately", kinds=(bool,)
    )
    probes: tuple[str, ...] = option(
        (),
        "also trace these; calls become spans",
        "also trace these `%%ktrace` probes; calls that can be measured become frames (spans) around what happened in "
        "them",
        flags="--with",
        metavar="PROBE",
        on_line={"nargs": "+", "action": "extend"},
    )
    gpu_kernels: bool = option(
        False,
        "show the time of GPU kernels under the line that launched them",
        "show the time of GPU kernels under the Python line that launched them",
        kinds=(bool,),
    )
    device: Asked = option(
        "auto",
        "with --gpu-kernels: where they run; cpu is the simulated device",
        "with `--gpu-kernels`, where they run: `cuda`, `cpu` for the simulated device, `auto` for a GPU if there is "
        "one",
        choices=("auto", "cuda", "cpu"),
    )
    xe: bool = option(
        False,
        "also run iaprof around the cell, for Intel's Xe GPUs",
        "run intel/iaprof around the cell, for Intel's Xe GPUs: `f.xe`",
        kinds=(bool,),
    )
    interval: int | None = option(
        None,
        "with --xe: length of iaprof's intervals in ms",
        "with `--xe`, the length of iaprof's intervals in ms; the end of the trace waits for two of them",
        metavar="MS",
        kinds=(int,),
        unset="10",
        convert=_milliseconds,
    )
    eu_stall_subsample: int | None = option(
        None,
        "with --xe: iaprof keeps one in N samples",
        "with `--xe`, iaprof keeps one in N samples",
        metavar="N",
        kinds=(int,),
        unset="100",
        convert=count,
    )
    sampler: Sampler = option(
        "auto",
        "bpf: sample in the kernel; thread: in this process, without privilege",
        "source of the samples: `bpf` samples in the kernel, `thread` from a thread of this process, which needs no "
        "privilege; `auto` uses BPF if this machine allows it",
        choices=get_args(Sampler),
    )
    all_frames: bool = option(
        False,
        "keep the notebook's own frames below the cell",
        "keep the notebook's and the tracer's own frames and threads",
        kinds=(bool,),
    )
    max_events: int = option(
        4_000_000,
        "keep at most N samples, waits and calls",
        "maximum number of samples, waits and calls",
        metavar="N",
        kinds=(int,),
        convert=count,
    )
    buffer: float = option(
        64.0,
        "size of the ring buffers in MiB",
        "total size of the ring buffers, MiB",
        metavar="MIB",
        kinds=(float,),
        convert=mebibytes,
    )

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
        check_choices(self)
        for companion in subsystems.companions().values():
            companion.check(vars(self))
        if self.sampler == "thread" and self.probes:
            raise ProbeError(
                "the thread sampler traces no probes",
                why="probes need BPF, which only the sampler bpf uses",
                fix="remove --sampler thread or --with",
                code="flame.probes-need-bpf",
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
        from accel_magic.probes.plan import TraceRequest

        return plans.make(TraceRequest(self.words(), max_events=self.max_events, buffer_mib=self.buffer, stacks=True))


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
