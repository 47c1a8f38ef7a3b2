"""What processes map while a trace runs, and notes about probed files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel_magic import demangle
from accel_magic.kernel.bcc import compiler
from accel_magic.probes import return_probes
from accel_magic.probes.plan import USER_KINDS

if TYPE_CHECKING:
    from contextlib import ExitStack

    from accel_magic.kernel.symbols.mapping_events import MappingEvents
    from accel_magic.kernel.symbols.mappings import FileId
    from accel_magic.probes.plan import Plan
    from accel_magic.recording.kernel_counts import KernelCounts


@dataclass(frozen=True)
class MappedFiles:
    """What processes map while the trace runs, and the ids of the probed files."""

    events: MappingEvents
    files: dict[str, FileId]

    def notes(self, plan: Plan, counts: KernelCounts) -> tuple[str, ...]:
        """Stop, and return notes on probed files that no process has loaded or that do not go with the probes."""
        from accel_magic.recording import unloaded_files

        self.events.stop()
        returns = any(map(return_probes.at_return, plan.points))
        risky = return_probes.about_loaded(plan.points, self.events.names()) if returns else []
        known = set(plan.notes)
        return (
            *(note for note in risky if note not in known),
            *unloaded_files.notes(plan, counts.hits, self.files, self.events),
        )


def needed(plan: Plan) -> bool:
    """Whether the trace has probes in processes' files, or their stacks."""
    return bool(plan.stacks) or any(point.kind in USER_KINDS for point in plan.points)


def record(plan: Plan, tracers: tuple[int, ...], undo: ExitStack) -> MappedFiles:
    """Start recording. `tracers` are process ids to leave out; `undo` receives what stops it."""
    from accel_magic.kernel.symbols.mapping_events import MappingEvents  # these import the ELF reader
    from accel_magic.recording import unloaded_files

    roots = {point.scope.pid for point in plan.points if point.scope.name != "all"}
    helpers = (*tracers, *compiler.helper_pids(), demangle.helper_pid() or 0)
    events = MappingEvents(roots, helpers)
    undo.callback(events.stop)
    events.start()
    return MappedFiles(events, unloaded_files.file_ids(plan))
