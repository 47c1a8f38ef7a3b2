"""`%%gputrace`: a list of options and one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand, output_can_be_silenced
from traitlets import CaselessStrEnum, Int

from accel_magic.banners import banners_of
from accel_magic.magics.gpu_options import GpuLine, parse
from accel_magic.magics.traced import TracedCells

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.block import Steps


@magics_class
class GpuTrace(TracedCells):
    """Defaults of `%%gputrace`: `%config GpuTrace.device = "cpu"`."""

    magic = "gputrace"
    device = CaselessStrEnum(("", "auto", "cuda", "cpu"), "", help="--device; empty: auto").tag(config=True)
    threads = Int(0, help="--threads; 0: the default").tag(config=True)

    @no_var_expand
    @output_can_be_silenced
    @line_cell_magic
    def gputrace(self, line: str, cell: str | None = None) -> object:
        """Run programs inside the cell's GPU kernels. `%gputrace --help` lists tools and options."""
        __tracebackhide__ = True
        return self.run(line, cell)

    def parse(self, line: str) -> GpuLine:
        """See `TracedCells.parse`."""
        return parse(line)

    def tracer(self, chosen: GpuLine) -> tuple[Steps[Any], Callable[[], object]]:
        """See `TracedCells.tracer`."""
        from accel_magic.gpu import trace as gpu

        defaults = {"device": self.device or None, "threads": self.threads or None}
        given = {**{name: value for name, value in defaults.items() if value}, **chosen.given}
        trace = gpu.GpuTrace(chosen.programs, gpu.GpuOptions(**given), save=chosen.common.save)
        return trace, trace.examine

    def rows(self, steps: Steps[Any]) -> Callable[[object], Any]:
        """See `TracedCells.rows`."""
        from accel_magic.views.live_gpu import GpuRow

        return lambda _: GpuRow(banners_of(steps))
