"""`%%ktrace`: a list of options and one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_cell_magic, line_magic, magics_class, no_var_expand, output_can_be_silenced
from traitlets import CaselessStrEnum, Float, Int, Unicode

from accel_magic.api import Options, Trace
from accel_magic.banners import banners_of
from accel_magic.errors import ProbeError
from accel_magic.magics.options import Line, parse
from accel_magic.magics.traced import TracedCells
from accel_magic.player import Player
from accel_magic.probes import bpftrace
from accel_magic.session import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.block import Steps
    from accel_magic.probes.plan import Plan
    from accel_magic.views.live import LiveRow


@magics_class
class KTrace(TracedCells):
    """Defaults of `%%ktrace`: `%config KTrace.mode = "count"`."""

    magic = "ktrace"
    mode = CaselessStrEnum(("auto", "count", "events"), "auto", help="--mode").tag(config=True)
    scope = Unicode("", help="--scope; empty: by the kind of probe").tag(config=True)
    max_events = Int(0, help="--max-events; 0: the default of the mode").tag(config=True)
    buffer = Float(64.0, help="--buffer, MiB").tag(config=True)

    def _options(self, line: Line) -> Options:
        defaults = {
            "mode": self.mode,
            "scope": self.scope or None,
            "max_events": self.max_events or None,
            "buffer": self.buffer,
        }
        return Options(**{**defaults, **line.given})

    @no_var_expand
    @output_can_be_silenced
    @line_cell_magic
    def ktrace(self, line: str, cell: str | None = None) -> object:
        """Trace the cell. `%ktrace --help` lists probes and options."""
        __tracebackhide__ = True
        bpftrace.check(line, cell or "")
        return self.run(line, cell)

    def parse(self, line: str) -> Line:
        """See `TracedCells.parse`."""
        return parse(line)

    def tracer(self, chosen: Line) -> tuple[Steps[Any], Callable[[], object]]:
        """See `TracedCells.tracer`."""
        common = chosen.common
        if not common.dry_run:
            warm_up()  # the helper processes come up while the probes are matched
        if chosen.program is not None:
            from accel_magic.program import ProgramTrace

            more = {name: value for name, value in (("save", common.save), ("live", common.live)) if value}
            program = ProgramTrace(chosen.program, chosen.probes, {**chosen.given, **more})
            return program, program.dry_run
        trace = Trace(chosen.probes, self._options(chosen), save=common.save)
        return trace, lambda: _dry_run(trace)

    def rows(self, steps: Steps[Any]) -> Callable[[Plan], LiveRow] | None:
        """See `TracedCells.rows`."""
        from accel_magic.views.live import LiveRow

        shows = isinstance(steps, Trace | Player)  # a program of the user's has no counters to show
        return (lambda plan: LiveRow(plan, banners_of(steps))) if shows else None

    @line_magic
    def accel_doctor(self, line: str) -> object:
        """Check what this machine can trace, with the fix for what it cannot; `--xe`: what iaprof needs too."""
        from accel_magic import doctor

        if line.strip() not in ("", "--xe"):
            raise ProbeError(
                f"%accel_doctor takes `--xe` or nothing: {line.strip()}", fix="%accel_doctor", code="option.unknown"
            )
        return doctor.report(xe=bool(line.strip()))


def _dry_run(trace: Trace) -> object:
    from accel_magic.views.dry_run import DryRun

    return DryRun.of(trace.prepare())
