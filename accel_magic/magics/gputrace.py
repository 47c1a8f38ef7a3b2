"""`%%gputrace`: a list of options and one call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand, output_can_be_silenced
from traitlets import Bool, CaselessStrEnum, Int, Unicode

from accel_magic.magics.gpu_options import parse
from accel_magic.magics.line import HelpRequested
from accel_magic.magics.traced import Request, TracedCells, body_of, in_kernel


@magics_class
class GpuTrace(TracedCells):
    """Defaults of `%%gputrace`: `%config GpuTrace.device = "cpu"`."""

    device = CaselessStrEnum(("", "cuda", "cpu"), "", help="--device; empty: what there is").tag(config=True)
    threads = Int(0, help="--threads; 0: the default").tag(config=True)
    live = Bool(True, help="show live counters in a notebook").tag(config=True)
    replay = Unicode("", help="play this recording instead of tracing; {output} in it is the name after -o").tag(
        config=True
    )

    @no_var_expand
    @output_can_be_silenced
    @line_cell_magic
    def gputrace(self, line: str, cell: str | None = None) -> object:
        """Run programs inside the cell's GPU kernels. `%gputrace --help` lists tools and options."""
        __tracebackhide__ = True
        try:
            chosen = parse(line)
        except HelpRequested as help_text:
            print(help_text)
            return None
        common = chosen.common
        code = body_of("gputrace", cell, common)
        live = in_kernel(self.shell) and (self.live if common.live is None else common.live)
        if self.replay and common.replay is None:
            suffix = f"-{common.output}" if common.output else ""
            common = replace(common, replay=self.replay.replace("{output}", suffix))
        request = Request("gputrace", line, code, common)
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
        from accel_magic.views.headline import banners
        from accel_magic.views.live_gpu import GpuRow

        return GpuRow(banners(trace.machine, trace.replayed))

    return make
