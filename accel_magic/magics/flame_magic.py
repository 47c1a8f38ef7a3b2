"""`%%flame`: a list of options and one call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_cell_magic, magics_class, no_var_expand, output_can_be_silenced

from accel_magic.api import options
from accel_magic.api.flame_options import FlameOptions
from accel_magic.api.option_table import add_options, given_of
from accel_magic.api.options import ClusterOptions, Common
from accel_magic.banners import banners_of
from accel_magic.engine.helper_processes import warm_up
from accel_magic.errors import ProbeError
from accel_magic.magics import magic_line
from accel_magic.magics.on_cluster import OnCluster
from accel_magic.magics.traced import traits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from accel_magic.api.block import Steps
    from accel_magic.api.flame_trace import FlameTrace
    from accel_magic.magics.magic_line import MagicParser
    from accel_magic.probes.plan import Plan
    from accel_magic.views.live.trace_row import TraceRow

_XE_ONLY = ("interval", "eu_stall_subsample")


@magics_class
class Flame(OnCluster):
    """Defaults of `%%flame`: `%config Flame.rate = 499`."""

    magic = "flame"
    locals().update(traits_of(FlameOptions))

    @no_var_expand
    @output_can_be_silenced
    @line_cell_magic
    def flame(self, line: str, cell: str | None = None) -> object:
        """Profile the cell. `%flame --help` lists the options."""
        __tracebackhide__ = True
        return self.run(line, cell)

    def parse(self, line: str) -> FlameLine:
        """Parse a line to a value with the common options as `common`. Raises ProbeError or HelpRequested."""
        return parse(line)

    def tracer(self, chosen: FlameLine) -> tuple[Steps[Any, Any], Callable[[], object] | None]:
        """Make the trace of a parsed line, and a function for `--dry-run` or None; nothing is attached yet."""
        from accel_magic.api.flame_trace import FlameTrace

        common, cluster = chosen.common, self.cluster(chosen.cluster, {"--dry-run": chosen.common.dry_run})
        if cluster is None and not common.dry_run:
            warm_up()  # the helper processes start while the probes are matched
        given = {**self.defaults(), **chosen.given}
        if not given.get("xe"):  # defaults of iaprof's own options are not for other cells
            given = {name: value for name, value in given.items() if name in chosen.given or name not in _XE_ONLY}
        options = FlameOptions(**given)
        if cluster is not None:
            from accel_magic.api.cluster.worker_traces import FlameClusterTrace

            return FlameClusterTrace(options, cluster.client, save=common.save, **cluster.options), None
        trace = FlameTrace(options, save=common.save)
        return trace, lambda: _dry_run(trace)

    def rows(self, steps: Steps[Any, Any]) -> Callable[[Plan | None], TraceRow] | None:
        """Return the function that makes the live row of a trace or replay; None for no row."""
        from accel_magic.api.flame_trace import FlameTrace
        from accel_magic.views.live.flame_row import FlameRow, waiting_row

        if (
            not isinstance(steps, FlameTrace) and steps.replayed is None
        ):  # workers send no samples while they are traced
            return None

        def make(plan: Plan | None) -> TraceRow:
            shown = banners_of(steps)
            return waiting_row(shown) if plan is None else FlameRow(plan, shown)

        return make


def cells_of(shell: Any) -> Callable[[], Mapping[str, str]]:
    """Return a function that maps the file names of cells to labels such as `cell [12]`."""

    def names() -> dict[str, str]:
        known = getattr(shell.compile, "_filename_map", {})  # the only place where IPython keeps it
        return {file: f"cell [{number}]" for file, number in known.items()}

    return names


def _dry_run(trace: FlameTrace) -> object:
    from accel_magic.views.dry_run import DryRun
    from accel_magic.views.flame.flame_summary import ThreadDryRun

    plan = trace.prepare()
    return ThreadDryRun(trace.options.rate, trace.notes) if plan is None else DryRun.of(plan)


EPILOG = """\
examples
  %%flame                                      sample running code 99 times a second
  %%flame --off-cpu 100 --by-thread            also waits of at least 100 us; threads shown separately
  %%flame --with intel_vpu:ivpu_*_ioctl -o t   also calls into the NPU driver, as spans
  %%flame --gpu-kernels                        also GPU kernels, under the line that launched them
  %%flame --on client                          the workers of a Dask or ipyparallel cluster
"""


@cache
def parser() -> MagicParser:
    """Make the parser of `%%flame`. Options not given are None: defaults come from `%config Flame`."""
    result = magic_line.new_parser(
        "flame",
        "[PROBE ...]",
        "Profile the cell: where its time goes, by stack, as a flame graph; returns a FlameResult.",
        EPILOG,
    )
    texts = {"traced": "the cell", "dry_run": "show what would be traced and the generated C"}
    result.add_argument("words", nargs="*", metavar="PROBE", help="the same as --with PROBE")
    add_options(result, FlameOptions, texts)
    add_options(result, ClusterOptions)
    add_options(result, Common, texts)
    return result


@dataclass(frozen=True)
class FlameLine:
    """The parsed line: `given` holds the options named as in `FlameOptions`, `cluster` those of `--on`."""

    given: dict[str, Any]
    cluster: dict[str, Any]
    common: Common


def parse(line: str) -> FlameLine:
    """Parse the text after `%%flame`.

    Raises:
        ProbeError: An unknown option, a bad value, or conflicting options.
        HelpRequested: `--help`.

    """
    values = parser().parse_intermixed_args(magic_line.words_of("flame", line))
    given, cluster = given_of(values, FlameOptions), given_of(values, ClusterOptions)
    if probes := (*values.words, *(values.probes or ())):
        given["probes"] = probes
    common = options.common_of("%%flame", values, (given, cluster))
    if "device" in given and not given.get("gpu_kernels") and common.replay is None:
        raise ProbeError("--device needs --gpu-kernels", fix="add --gpu-kernels", code="option.device-without-gpu")
    return FlameLine(given=given, cluster=cluster, common=common)
