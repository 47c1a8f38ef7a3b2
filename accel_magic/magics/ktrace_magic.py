"""`%%ktrace`: a list of options and one call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from IPython.core.magic import line_cell_magic, line_magic, magics_class, no_var_expand, output_can_be_silenced

from accel_magic.api import options
from accel_magic.api.option_table import add_options, given_of
from accel_magic.api.options import ClusterOptions, Common
from accel_magic.api.probe_trace import Trace
from accel_magic.api.trace_options import Options
from accel_magic.banners import banners_of
from accel_magic.engine.helper_processes import warm_up
from accel_magic.errors import ProbeError
from accel_magic.magics import magic_line
from accel_magic.magics.on_cluster import OnCluster
from accel_magic.magics.traced import traits_of
from accel_magic.probes import bpftrace

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.api.block import Steps
    from accel_magic.magics.magic_line import MagicParser
    from accel_magic.views.live.trace_row import TraceRow

_ALL: Final = "--all"
"""An option of `%accel_doctor`: show all checks."""


@magics_class
class KTrace(OnCluster):
    """Defaults of `%%ktrace`: `%config KTrace.mode = "count"`."""

    magic = "ktrace"
    locals().update(traits_of(Options))

    @no_var_expand
    @output_can_be_silenced
    @line_cell_magic
    def ktrace(self, line: str, cell: str | None = None) -> object:
        """Trace the cell. `%ktrace --help` lists probes and options."""
        __tracebackhide__ = True
        bpftrace.check(line, cell or "")
        return self.run(line, cell)

    def parse(self, line: str) -> KtraceLine:
        """Parse a line to a value with the common options as `common`. Raises ProbeError or HelpRequested."""
        return parse(line)

    def tracer(self, chosen: KtraceLine) -> tuple[Steps[Any, Any], Callable[[], object] | None]:
        """Make the trace of a parsed line, and a function for `--dry-run` or None; nothing is attached yet."""
        common, given = chosen.common, {**self.defaults(), **chosen.given}
        cluster = self.cluster(chosen.cluster, {"--program": chosen.program is not None, "--dry-run": common.dry_run})
        if cluster is not None:
            from accel_magic.api.cluster.cluster_trace import ClusterTrace

            more = {"save": common.save, **cluster.options}
            return ClusterTrace(chosen.probes, Options(**given), cluster.client, **more), None
        if not common.dry_run:
            warm_up()  # the helper processes start while the probes are matched
        if chosen.program is not None:
            from accel_magic.api.program_trace import ProgramTrace

            more = {name: value for name, value in (("save", common.save), ("live", common.live)) if value}
            program = ProgramTrace(chosen.program, chosen.probes, {**chosen.given, **more})
            return program, program.dry_run
        trace = Trace(chosen.probes, Options(**given), save=common.save)
        return trace, lambda: _dry_run(trace)

    def rows(self, steps: Steps[Any, Any]) -> Callable[[Any], TraceRow] | None:
        """Return the function that makes the live row of a trace or replay; None for no row."""
        from accel_magic import subsystems
        from accel_magic.views.live.trace_row import LiveRow

        if steps.of_nodes:
            from accel_magic.views.live.cluster_row import ClusterRow

            return lambda nodes: ClusterRow(len(nodes))
        shows = isinstance(steps, Trace) or steps.replayed is not None  # a user's program has no counters to show
        return (lambda plan: LiveRow(plan, banners_of(steps), subsystems.live_items(plan))) if shows else None

    @line_magic
    def accel_doctor(self, line: str) -> object:
        """Check what works on this machine, with fixes for what does not.

        `--all`: all checks, also those with nothing to fix; `--xe`: also what iaprof needs.
        """
        from accel_magic import subsystems
        from accel_magic.api import doctor

        known = {f"--{one.attribute}": one.attribute for one in subsystems.companions().values()}
        words = line.split()
        if unknown := [word for word in words if word not in known and word != _ALL]:
            raise ProbeError(
                f"%accel_doctor takes only {' and '.join(f'`{word}`' for word in (_ALL, *known))}: {unknown[0]}",
                fix="%accel_doctor",
                code="option.unknown",
            )
        return replace(doctor.report(**{known[word]: True for word in words if word in known}), complete=_ALL in words)


def _dry_run(trace: Trace) -> object:
    from accel_magic.views.dry_run import DryRun

    return DryRun.of(trace.prepare())


_EXAMPLE = """\
example
  %%ktrace tracepoint:syscalls:sys_enter_ioctl latency:uprobe:libc:malloc -o t
"""


@cache
def parser() -> MagicParser:
    """Make the parser of `%%ktrace`. Options not given are None: defaults come from `%config KTrace`."""
    result = magic_line.new_parser(
        "ktrace",
        "PROBE [PROBE ...]",
        "Trace what the cell does, with live counters; returns a TraceResult.",
        f"{options.probes_help()}\n{_EXAMPLE}",
    )
    result.add_argument("probes", nargs="*", metavar="PROBE", help="what to trace, see below")
    texts = {"traced": "the cell", "own": "this notebook's processes", "dry_run": options.DRY_RUN}
    add_options(result, Options, texts)
    add_options(result, ClusterOptions)
    options.add_program_option(result)
    add_options(result, Common, texts)
    return result


@dataclass(frozen=True)
class KtraceLine:
    """The parsed line. `given` has the trace options on the line, named as in `Options`; `cluster` those of `--on`."""

    probes: tuple[str, ...]
    given: dict[str, Any]
    cluster: dict[str, Any]
    program: str | None
    common: Common


def parse(line: str) -> KtraceLine:
    """Parse the text after `%%ktrace`.

    Raises:
        ProbeError: An unknown option, a bad value, or conflicting options.
        HelpRequested: `--help`.

    """
    values = parser().parse_intermixed_args(options.with_kinds(magic_line.words_of("ktrace", line)))
    given, cluster = given_of(values, Options), given_of(values, ClusterOptions)
    common = options.common_of("%%ktrace", values, (values.probes, given, cluster, values.program))
    if common.replay is None and not values.probes and values.program is None:
        raise ProbeError(
            "%%ktrace: no probe given",
            fix="e.g. %%ktrace tracepoint:syscalls:sys_enter_ioctl",
            code="probe.none-given",
        )
    return KtraceLine(probes=tuple(values.probes), given=given, cluster=cluster, program=values.program, common=common)
