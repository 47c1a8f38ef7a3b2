"""What a flame recording holds beside events and stacks: what was asked for, threads, launches, its own cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from accel_magic.kernel.stacks.table import StackTable

NOT_KNOWN: Final = -1
"""A time that nothing tells."""


@dataclass(frozen=True)
class Launch:
    """One kernel that was launched on an accelerator.

    Attributes:
        time_ns: When the host asked for it, ns since the start of the recording.
        tid: The thread that asked, as the kernel's programs see it.
        stack: Key of its Python stack in the recording's table of stacks; 0 where it has none.
        kernel: Its name.
        device_ns: How long it took on the device; `NOT_KNOWN` where the device did not tell.

    """

    time_ns: int
    tid: int
    stack: int
    kernel: str
    device_ns: int


class Watched(NamedTuple):
    """What was seen of an accelerator.

    Attributes:
        launches: In order of time.
        more: How many there were beyond those that are kept.
        stacks: A table that has their stacks too; None without any.
        device: What they ran on, in words; '' where none was watched.
        notes: What the user must know.

    """

    launches: tuple[Launch, ...] = ()
    more: int = 0
    stacks: StackTable | None = None
    device: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlameFacts:
    """Of one flame recording.

    Attributes:
        rate: Samples per second of each busy processor.
        threads: Whether each thread was to be a root of its own.
        all_frames: Whether the frames of the notebook below the cell were to be kept.
        names: (thread id, Python's name of it) of the threads that were alive at the end.
        device: What launched kernels ran on, in words; '' where none was watched.
        launches: In order of time.
        more_launches: How many there were beyond those that are kept.
        cpu_ns: CPU time of the process by its own clock, without the tracer's threads; `NOT_KNOWN` without it.
        tracer_ns: CPU time of the tracer: of its programs in the kernel, its threads in this process, its reader.
        notes: What the user must know, a sentence each.

    """

    rate: int
    threads: bool = False
    all_frames: bool = False
    names: tuple[tuple[int, str], ...] = ()
    device: str = ""
    launches: tuple[Launch, ...] = ()
    more_launches: int = 0
    cpu_ns: int = NOT_KNOWN
    tracer_ns: int = NOT_KNOWN
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; `from_dict` is the inverse."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> FlameFacts:
        """Build it back from `to_dict`. Raises KeyError or TypeError where `data` is not one."""
        return cls(
            **{
                **data,
                "names": tuple((tid, name) for tid, name in data["names"]),
                "launches": tuple(Launch(**launch) for launch in data["launches"]),
                "notes": tuple(data["notes"]),
            }
        )
