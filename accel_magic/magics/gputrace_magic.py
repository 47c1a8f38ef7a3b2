"""`%%gputrace`: a list of options and one call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand, output_can_be_silenced

from accel_magic.api import options
from accel_magic.api.gpu_options import GpuOptions
from accel_magic.api.option_table import add_options, given_of
from accel_magic.api.options import ClusterOptions, Common
from accel_magic.banners import banners_of
from accel_magic.errors import ProbeError
from accel_magic.magics import magic_line
from accel_magic.magics.on_cluster import OnCluster
from accel_magic.magics.traced import traits_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.api.block import Steps
    from accel_magic.magics.magic_line import MagicParser


@magics_class
class GpuTrace(OnCluster):
    """Defaults of `%%gputrace`: `%config GpuTrace.device = "cpu"`."""

    magic = "gputrace"
    locals().update(traits_of(GpuOptions))

    @no_var_expand
    @output_can_be_silenced
    @line_cell_magic
    def gputrace(self, line: str, cell: str | None = None) -> object:
        """Run programs inside the cell's GPU kernels. `%gputrace --help` lists tools and options."""
        __tracebackhide__ = True
        return self.run(line, cell)

    def parse(self, line: str) -> GpuLine:
        """Parse a line to a value with the common options as `common`. Raises ProbeError or HelpRequested."""
        return parse(line)

    def tracer(self, chosen: GpuLine) -> tuple[Steps[Any, Any], Callable[[], object] | None]:
        """Make the trace of a parsed line, and a function for `--dry-run` or None; nothing is attached yet."""
        from accel_magic.api import gputrace

        cluster = self.cluster(
            chosen.cluster, {"--dry-run": chosen.common.dry_run, "--save": chosen.common.save is not None}
        )
        defaults = self.defaults()
        if {"every", "by_launch"} & chosen.given.keys():  # one excludes the other
            defaults = {name: value for name, value in defaults.items() if name not in ("every", "by_launch")}
        given = {**defaults, **chosen.given}
        if chosen.fill:
            given["fill"] = magic_line.tables_of(chosen.fill, self.shell.user_ns)
        if cluster is not None:
            from accel_magic.api.cluster.worker_traces import GpuClusterTrace

            on = GpuClusterTrace(chosen.programs, GpuOptions(**given), cluster.client, **cluster.options)
            return on, None
        trace = gputrace.GpuTrace(chosen.programs, GpuOptions(**given), save=chosen.common.save)
        return trace, trace.examine

    def rows(self, steps: Steps[Any, Any]) -> Callable[[object], Any] | None:
        """Return the function that makes the live row of a trace or replay; None for no row."""
        from accel_magic.api import gputrace
        from accel_magic.views.live.gpu_row import GpuRow

        if (
            not isinstance(steps, gputrace.GpuTrace) and steps.replayed is None
        ):  # workers send no samples while they are traced
            return None
        return lambda _: GpuRow(banners_of(steps))


def _epilog() -> str:
    from accel_magic.gpu_tools import TOOLS  # imports pandas

    text = [
        "tools",
        *(f"  {name:<16} {tool.shows}" for name, tool in TOOLS.items()),
        "",
        "or a file with your own program: mine.bpf.c (docs/gpu-programs.md), mine.o",
        "FUNCTION=PROBE attaches its CPU program FUNCTION: on_launch=uprobe:cuda:cuLaunchKernel",
        "",
        "example",
        "  %%gputrace threadhist memtrace --kernel 'matmul*' -o t",
        "",
    ]
    return "\n".join(text)


@cache
def parser() -> MagicParser:
    """Make the parser of `%%gputrace`. Options not given are None: defaults come from `%config GpuTrace`."""
    result = magic_line.new_parser(
        "gputrace",
        "TOOL|FILE [TOOL|FILE ...]",
        "Run eBPF programs inside the GPU kernels that the cell launches; returns a GpuResult.",
        _epilog(),
    )
    texts = {"traced": "the cell", "dry_run": "show the verifier's report and the PTX of the programs"}
    result.add_argument("programs", nargs="*", metavar="TOOL|FILE", help="what to run, see below")
    result.add_argument("--program", action="append", metavar="FILE", help="same as naming the file as TOOL|FILE")
    add_options(result, GpuOptions)
    add_options(result, ClusterOptions)
    add_options(result, Common, texts)
    return result


@dataclass(frozen=True)
class GpuLine:
    """The parsed line: `given` holds the options named as in `GpuOptions`, `fill` the texts of `--fill`."""

    programs: tuple[str, ...]
    given: dict[str, Any]
    fill: tuple[str, ...]
    cluster: dict[str, Any]
    common: Common


def parse(line: str) -> GpuLine:
    """Parse the text after `%%gputrace`.

    Raises:
        ProbeError: An unknown option, a bad value, or conflicting options.
        HelpRequested: `--help`.

    """
    values = parser().parse_intermixed_args(magic_line.words_of("gputrace", line))
    programs = (*values.programs, *(values.program or ()))
    given, cluster = given_of(values, GpuOptions), given_of(values, ClusterOptions)
    fill = tuple(given.pop("fill", ()))
    if "settings" in given:
        from accel_magic.gpu.program import settings

        given["settings"] = settings.parse(given["settings"])
    common = options.common_of("%%gputrace", values, (programs, given, fill, cluster))
    if common.replay is None and not programs:
        from accel_magic.gpu_tools import TOOLS

        raise ProbeError(
            "%%gputrace: no tool or program given",
            why=f"the tools are {', '.join(TOOLS)}",
            fix="e.g. %%gputrace threadhist",
            code="gpu.no-program-given",
        )
    return GpuLine(programs=programs, given=given, fill=fill, cluster=cluster, common=common)
