"""`%%flame`: a list of options and one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand, output_can_be_silenced
from traitlets import Bool, CaselessStrEnum, Int

from accel_magic.banners import banners_of
from accel_magic.magics.flame_options import FlameLine, parse
from accel_magic.magics.traced import TracedCells
from accel_magic.session import warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.block import Steps
    from accel_magic.flames.trace import FlameTrace
    from accel_magic.probes.plan import Plan
    from accel_magic.views.row import Row


@magics_class
class Flame(TracedCells):
    """Defaults of `%%flame`: `%config Flame.rate = 499`."""

    magic = "flame"
    rate = Int(99, help="--rate").tag(config=True)
    off_cpu = Bool(False, help="--off-cpu").tag(config=True)
    threads = Bool(False, help="--threads").tag(config=True)
    sampler = CaselessStrEnum(("auto", "bpf", "thread"), "auto", help="--sampler").tag(config=True)

    @no_var_expand
    @output_can_be_silenced
    @line_cell_magic
    def flame(self, line: str, cell: str | None = None) -> object:
        """Profile the cell. `%flame --help` lists the options."""
        __tracebackhide__ = True
        return self.run(line, cell)

    def parse(self, line: str) -> FlameLine:
        """See `TracedCells.parse`."""
        return parse(line)

    def tracer(self, chosen: FlameLine) -> tuple[Steps[Any], Callable[[], object]]:
        """See `TracedCells.tracer`."""
        from accel_magic.flames.options import FlameOptions
        from accel_magic.flames.trace import FlameTrace

        if not chosen.common.dry_run:
            warm_up()  # the helper processes come up while the probes are matched
        defaults = {name: getattr(self, name) for name in ("rate", "off_cpu", "threads", "sampler")}
        options = FlameOptions(**{**defaults, **chosen.given})
        trace = FlameTrace(options, save=chosen.common.save)
        return trace, lambda: _dry_run(trace)

    def rows(self, steps: Steps[Any]) -> Callable[[Plan | None], Row]:
        """See `TracedCells.rows`."""
        from accel_magic.views.live_flame import FlameRow, waiting_row

        def make(plan: Plan | None) -> Row:
            shown = banners_of(steps)
            return waiting_row(shown) if plan is None else FlameRow(plan, shown)

        return make


def cells_of(shell: Any) -> Callable[[], Mapping[str, str]]:
    """What names the files that IPython gave to cells: `cell [12]`."""

    def names() -> dict[str, str]:
        known = getattr(shell.compile, "_filename_map", {})  # the only place where IPython keeps it
        return {file: f"cell [{number}]" for file, number in known.items()}

    return names


def _dry_run(trace: FlameTrace) -> object:
    from accel_magic.views.dry_run import DryRun
    from accel_magic.views.flame_page import ThreadDryRun

    plan = trace.prepare()
    return ThreadDryRun(trace.options.rate, trace.notes) if plan is None else DryRun.of(plan)
