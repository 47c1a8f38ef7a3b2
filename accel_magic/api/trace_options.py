"""The options of a trace besides its probes."""

# Classes of fields are needed when the program runs.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic.api.option_table import count, documented, mebibytes, option, seconds
from accel_magic.probes.plan import Mode, Stacks, TraceRequest, Uprobes

if TYPE_CHECKING:
    from accel_magic.probes.plan import Plan

DEFAULT_MAX_EVENTS = 4_000_000
"""The number of events (about 200 MB) after which `auto` mode stops recording and only counts."""


@documented
@dataclass(frozen=True)
class Options:
    """The options of a trace besides its probes; each is also an option of `%%ktrace`."""

    mode: Mode = option(
        "auto",
        "auto: events up to --max-events, then only counts",
        "`auto`: record events up to `--max-events`, then only count; `count`: record none; `events`: record all",
        choices=("auto", "count", "events"),
    )
    scope: str | int | None = option(
        None,
        "whose hits count: {own}, all processes, or one",
        "processes whose hits count: `self` (this process, its threads and descendants), `all`, or a process id",
        metavar="self|all|PID",
        kinds=(int, str),
        unset="by probe: self for libraries, system calls, samples and waits, else all",
    )
    filter: str = option(
        "",
        "count only matching hits, e.g. 'arg0 > 4096 and pid == 12'",
        "only hits that match, e.g. `arg0 > 4096 and comm == 'python3'`",
        metavar="EXPR",
        kinds=(str,),
    )
    args: str = option(
        "",
        "extra columns, e.g. 'size=arg1:u64,path=arg0:str'",
        "extra columns, `NAME=SOURCE[OFFSET]:TYPE@return,...`",
        metavar="COLUMNS",
        kinds=(str,),
    )
    max_events: int | None = option(
        None,
        "record at most N events; counting continues",
        "record at most N events, then only count; memory is a limit in every mode",
        metavar="N",
        kinds=(int,),
        unset=f"{DEFAULT_MAX_EVENTS:,} in auto",
        convert=count,
    )
    duration: float | None = option(
        None,
        "stop tracing after S seconds ({traced} continues)",
        "stop tracing after S seconds; the cell continues",
        metavar="S",
        kinds=(float,),
        convert=seconds,
    )
    buffer: float = option(
        64,
        "size of the ring buffers in MiB",
        "total size of the ring buffers, MiB",
        metavar="MIB",
        kinds=(float,),
        convert=mebibytes,
    )
    stacks: Stacks = option(
        False,
        "record the stacks of each event: kernel,user,python (without KINDS: all available)",
        "stacks of every event: `kernel`, `user`, `python`, joined by commas (in Python also a tuple); without kinds "
        "(in Python: True), all that are available",
        metavar="KINDS",
        kinds=(bool, str),
        on_line={"nargs": "?"},
    )
    uprobes: Uprobes = option(
        "auto",
        "functions of this process: patched where possible, only patched, or only by the kernel",
        "how functions of libraries in this process are probed. `auto`: patched where possible, else by breakpoints of "
        "the kernel; `patched`: only so; `kernel`: only by breakpoints, which also count in programs that the cell "
        "starts: [patching.md](patching.md)",
        choices=("auto", "patched", "kernel"),
    )
    children: bool = option(
        False,
        "patch functions in the programs that {traced} starts, too",
        "patch functions in the programs that the cell starts, too: "
        "[patching.md](patching.md#programs-that-a-cell-starts)",
        kinds=(bool,),
    )

    def plan(self, probes: tuple[str, ...], pid: int | None = None, *, unlimited: bool = False) -> Plan:
        """Match the probes against this machine; nothing is attached.

        Args:
            probes: As on the `%%ktrace` line.
            pid: The process of the scope `self`; None for this one.
            unlimited: Whether `auto` records all events too, unless `max_events` is set.

        Raises:
            ProbeError: A probe or option is invalid, or a probe matches nothing.
            MachineError: This machine lacks something that the trace needs.

        """
        limit = self.max_events
        if limit is None and self.mode == "auto" and not unlimited:
            limit = DEFAULT_MAX_EVENTS
        from accel_magic.api import plans

        request = TraceRequest(
            probes,
            mode=self.mode,
            scope="" if self.scope is None else str(self.scope),
            filter=self.filter.strip(),
            args=self.args,
            max_events=limit,
            duration_s=self.duration,
            buffer_mib=self.buffer,
            stacks=self.stacks,
            uprobes=self.uprobes,
            children=self.children,
        )
        return plans.make(request, pid)
