"""`%%gputrace`: a list of options and one call."""

from __future__ import annotations

from typing import Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand, output_can_be_silenced
from traitlets import CaselessStrEnum, Int

from accel_magic.banners import banners_of
from accel_magic.magics.gpu_options import parse
from accel_magic.magics.traced import TracedCells


@magics_class
class GpuTrace(TracedCells):
    """Defaults of `%%gputrace`: `%config GpuTrace.device = "cpu"`."""

    device = CaselessStrEnum(("", "auto", "cuda", "cpu"), "", help="--device; empty: auto").tag(config=True)
    threads = Int(0, help="--threads; 0: the default").tag(config=True)

    @no_var_expand
    @output_can_be_silenced
    @line_cell_magic
    def gputrace(self, line: str, cell: str | None = None) -> object:
        """Run programs inside the cell's GPU kernels. `%gputrace --help` lists tools and options."""
        __tracebackhide__ = True
        read = self.read("gputrace", parse, line, cell)
        if read is None:
            return None
        chosen, request, live = read
        common = request.common
        if common.replay is not None:
            from accel_magic.gpu.playback import GpuReplay

            player = GpuReplay(common.replay, speed=common.speed)
            return self.play_back(request, player, _rows(player) if live else None)
        from accel_magic.gpu import trace as gpu

        defaults = {"device": self.device or None, "threads": self.threads or None}
        given = {**{name: value for name, value in defaults.items() if value}, **chosen.given}
        trace = gpu.GpuTrace(chosen.programs, gpu.GpuOptions(**given), save=common.save)
        if common.dry_run:
            return trace.examine()
        return self.trace_cell(request, trace, _rows(trace) if live else None)


def _rows(trace: Any) -> Any:
    """What makes the live row of a trace or of a playback."""

    def make(_: object) -> Any:
        from accel_magic.views.live_gpu import GpuRow

        return GpuRow(banners_of(trace))

    return make
