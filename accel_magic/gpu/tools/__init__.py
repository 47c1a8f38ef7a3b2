"""The tools that come with the package: programs in `bpf/gpu`, by name, with what each shows."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Counted:
    """A small array of a tool, and the columns of its values whose sums tell what was counted so far."""

    map: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its name, what it shows in one line, and what the live row shows of its counts while it runs."""

    name: str
    shows: str
    live: Counted | None = None


STRIPES: Final = 32
"""How often a counter is there that all warps add to, one for each of so many multiprocessors: GPU_STRIPES in
accel_gpu.h."""
_TABLE = (
    Tool("threadhist", "work per thread: how often it ran, and for how many cycles; imbalance"),
    Tool("kernelretsnoop", "when each thread left its kernel; divergence within warps"),
    Tool("launchlate", "from the host's launch to the first instruction"),
    Tool(
        "memtrace",
        "memory accesses by place: bytes, lanes, sectors per request; coalescing; bank conflicts of shared memory",
        Counted("accesses", ("requests",)),
    ),
    Tool("blocktime", "when each block ran, and where; load balance"),
    Tool("warpmap", "which multiprocessor and slot each warp had"),
    Tool("kernelcount", "how many warps and threads ran each kernel", Counted("kernels", ("warps",))),
    Tool("funclat", "time in device functions", Counted("returns", ("calls",))),
    Tool("branchdiv", "divergent branches by place in the source"),
)
TOOLS: Final[Mapping[str, Tool]] = MappingProxyType({tool.name: tool for tool in _TABLE})
"""All of them by name."""
