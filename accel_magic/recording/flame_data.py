"""Data of a flame recording besides events and stacks: options, threads, launches and tracing cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from accel_magic.kernel.stacks.stack_table import StackTable

NOT_KNOWN: Final = -1
"""Marks an unknown time."""


@dataclass(frozen=True)
class AcceleratorLaunch:
    """One kernel launch on an accelerator.

    Attributes:
        time_ns: When the host requested the launch, ns since the start of the recording.
        tid: The launching thread, as seen by the BPF programs.
        stack: Key of its Python stack in the recording's table of stacks; 0 without one.
        kernel: Name of the kernel.
        device_ns: Duration on the device; `NOT_KNOWN` if the device did not report it.

    """

    time_ns: int
    tid: int
    stack: int
    kernel: str
    device_ns: int


class AcceleratorActivity(NamedTuple):
    """Observations of an accelerator.

    Attributes:
        launches: In order of time.
        more: Number of launches beyond those kept.
        stacks: A stack table that includes their stacks; None without any.
        device: Description of the device; '' if none was watched.
        notes: Notes for the user.

    """

    launches: tuple[AcceleratorLaunch, ...] = ()
    more: int = 0
    stacks: StackTable | None = None
    device: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlameFacts:
    """Options and measurements of one flame recording.

    Attributes:
        rate: Samples per second on each busy CPU.
        threads: Whether each thread has its own root.
        all_frames: Whether to keep the notebook's own frames below the cell's.
        names: (thread id, Python thread name) of the threads alive at the end.
        device: Description of the device that ran the launched kernels; '' if none was watched.
        launches: In order of time.
        more_launches: Number of launches beyond those kept.
        cpu_ns: CPU time by the kernel's own clocks: of the process without the tracer's threads, and of the children
            that ended meanwhile; `NOT_KNOWN` if unavailable.
        tracer_ns: CPU time of the tracer: its BPF programs, its threads in this process and its reader process.
        notes: Notes for the user, a sentence each.

    """

    rate: int
    threads: bool = False
    all_frames: bool = False
    names: tuple[tuple[int, str], ...] = ()
    device: str = ""
    launches: tuple[AcceleratorLaunch, ...] = ()
    more_launches: int = 0
    cpu_ns: int = NOT_KNOWN
    tracer_ns: int = NOT_KNOWN
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FlameFacts:
        """Undo `to_dict`. Raises KeyError or TypeError if `data` has the wrong form."""
        return cls(
            **{
                **data,
                "names": tuple((tid, name) for tid, name in data["names"]),
                "launches": tuple(AcceleratorLaunch(**launch) for launch in data["launches"]),
                "notes": tuple(data["notes"]),
            }
        )
