"""`%%gpupolicy`: try policies of a GPU's driver on the cell's accesses, or on a trace."""

from __future__ import annotations

import shlex
from functools import cache
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand, output_can_be_silenced
from IPython.display import display

from accel_magic.api.options import check_output
from accel_magic.errors import ProbeError
from accel_magic.magics import magic_line
from accel_magic.magics.cell_runner import compile_cell

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    import pandas as pd

    from accel_magic.magics.gputrace_magic import GpuTrace
    from accel_magic.magics.magic_line import MagicParser
    from accel_magic.results.driver_result import DriverResult
    from accel_magic.results.policy_result import PolicyResult
    from accel_magic.results.scheduling_result import ScheduleResult
    from accel_magic.views.diagnosis import Diagnosis

EPILOG = """
policies
  names of shipped ones (bpf/policies/), or files: mine.bpf.c, mine.o

examples
  %%gpupolicy mru lfu --memory 60% -o p      (over a cell that runs GPU kernels)
  %gpupolicy lfu mru --trace zipf:blocks=512 --memory 60% -o p
  %gpupolicy mine.bpf.c --check
  %%gpupolicy lfu --engine driver -o p       (the cell runs under the policy, in an NVIDIA driver with gpu_ext)
  %gpupolicy timeslices --set critical.chat=1 --tenants "chat*2:work=50us,every=10ms batch*4:work=5ms"
"""
_LONG = 10_000_000
"""Accesses from which on progress is shown."""
_OF_TRACES = ("memory", "faults_only", "link", "fill", "device", "duration", "runs", "switch")
"""Options without a meaning for a driver."""


@magics_class
class GpuPolicy(Magics):
    """The magic.

    Args:
        shell: The interpreter.
        gputrace: Traces the cells of this magic.

    """

    def __init__(self, shell: Any, gputrace: GpuTrace) -> None:
        super().__init__(shell)
        self._gputrace = gputrace

    @no_var_expand
    @output_can_be_silenced
    @line_cell_magic
    def gpupolicy(
        self, line: str, cell: str | None = None
    ) -> PolicyResult | ScheduleResult | DriverResult | Diagnosis | None:
        """Try policies on the pages that the cell's kernels access, on a trace, or with tenants (--help)."""
        __tracebackhide__ = True
        from accel_magic.api.gpupolicy import check
        from accel_magic.policies.trial import DRIVER

        try:
            given = parser().parse_args(magic_line.words_of("gpupolicy", line))
        except magic_line.HelpRequested as help_text:
            print(help_text)
            return None
        check_output(given.output)
        if given.check:
            return check(given.policies)
        if given.engine == DRIVER:
            return self._on_driver(given, line, cell)
        tried = [given.trace is None, given.tenants is None, cell is None].count(False)
        if tried != 1:
            raise ProbeError(
                "policies are tried on one thing: the cell's accesses, --trace or --tenants",
                fix=_fewer(given, over_cell=cell is not None)
                if tried
                else "add --trace zipf, or write %%gpupolicy over a cell that runs GPU kernels",
                code="policy.one-trace",
            )
        result = self._with_tenants(given) if given.tenants is not None else self._on_trace(given, cell)
        if given.output and self.shell:
            self.shell.user_ns[given.output] = result
        return result

    def _on_driver(self, given: argparse.Namespace, line: str, cell: str | None) -> DriverResult:
        """Run the cell under a policy in the driver; after an error, `-o` has the result all the same."""
        __tracebackhide__ = True
        from accel_magic.api.driver_policy import DriverPolicy
        from accel_magic.gpu.program.settings import parse
        from accel_magic.policies.trial import DRIVER, ENGINES, check_engine

        if cell is None or given.trace is not None or given.tenants is not None:
            check_engine(DRIVER)
        _refuse(given, _OF_TRACES, f"the engines {' and '.join(ENGINES)}")
        if len(given.policies) > 1:
            raise ProbeError(
                f"{len(given.policies)} policies cannot be attached to a driver at a time",
                why="the cell runs once, under one policy",
                fix="use a cell for each; or compare them on a trace: --engine model",
                code="policy.one-at-a-time",
            )
        shell: Any = self.shell
        compiled = compile_cell(shell, f"%%gpupolicy {line}\n", cell or "")
        block = DriverPolicy(given.policies[0], settings=parse(given.set or ()))
        if given.output:
            block.on_result = lambda result: shell.user_ns.update({given.output: result})
        try:
            with block:
                value = compiled.run(shell.user_ns)
        except BaseException:
            if block.has_result:
                display(block.result)
            raise
        block.result.value = value
        if value is not None and not shell.displayhook.semicolon_at_end_of_expression(cell):
            display(value)
        return block.result

    def _on_trace(self, given: argparse.Namespace, cell: str | None) -> PolicyResult:
        from accel_magic.api.gpupolicy import gpupolicy
        from accel_magic.gpu.program.settings import parse
        from accel_magic.policies.link_model import DEFAULT
        from accel_magic.policies.policy import MEMORY_TABLE
        from accel_magic.policies.trial import load_all

        _refuse(given, ("duration", "runs", "switch"), "--tenants")
        names = self.shell.user_ns if self.shell else {}
        settings = parse(given.set or ())
        if cell is not None:
            load_all(given.policies, settings, MEMORY_TABLE)  # before the cell runs
        device = f" --device {given.device}" if given.device else ""
        traced: Any = self._gputrace.run(f"pagetrace{device}", cell) if cell is not None else None
        trace: Any = traced if traced is not None else names.get(given.trace, given.trace)
        result = gpupolicy(
            given.policies,
            trace,
            memory=given.memory or "50%",
            faults_only=bool(given.faults_only),
            engine=given.engine or "model",
            link=given.link or DEFAULT,
            settings=settings,
            fill=self._tables(given.fill or ()),
            progress=_Progress(),
        )
        if traced is not None:
            result.value = traced.value
        return result

    def _tables(self, texts: Sequence[str]) -> dict[str, pd.DataFrame]:
        """Variables with tables by map: `MAP=VARIABLE`."""
        import pandas as pd

        found = magic_line.tables_of(texts, self.shell.user_ns if self.shell else {})
        for name, table in found.items():
            if not isinstance(table, pd.DataFrame):
                raise ProbeError(
                    f"{name} cannot be filled with this",
                    why=f"the variable is a {type(table).__name__}, not a data frame",
                    fix="write MAP=VARIABLE with a data frame that has a column address, page or block",
                    code="program.bad-setting",
                )
        return found

    @staticmethod
    def _with_tenants(given: argparse.Namespace) -> ScheduleResult:
        from accel_magic.api.gpupolicy import gpuschedule
        from accel_magic.gpu.program.settings import parse

        _refuse(given, ("memory", "faults_only", "link", "device", "fill"), "a trace")
        return gpuschedule(
            given.policies,
            given.tenants,
            duration_s=1.0 if given.duration is None else given.duration,
            runs=10 if given.runs is None else given.runs,
            switch_us=given.switch or 0.0,
            engine=given.engine or "model",
            settings=parse(given.set or ()),
        )


def _refuse(given: argparse.Namespace, options: tuple[str, ...], what: str) -> None:
    """Raise ProbeError if options were given that have no meaning without `what`."""
    used = [f"--{option.replace('_', '-')}" for option in options if getattr(given, option) is not None]
    if used:
        raise ProbeError(
            f"{', '.join(used)} {'are' if len(used) > 1 else 'is'} for {what} only",
            fix=f"remove {' and '.join(used)}",
            code="option.conflict",
        )


class _Progress:
    """One line in the cell's output, which shows how far a long trial is."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, policy: str, accesses: int) -> None:
        if accesses < _LONG:
            return
        shown = {"text/plain": f"{policy}: {accesses / 1e6:.0f} million accesses"}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def _fewer(given: argparse.Namespace, *, over_cell: bool) -> str:
    """What to remove so that one thing is left, as it is written on the line."""
    options = {"--tenants": given.tenants, "--trace": given.trace}
    there = [f"{name} {shlex.quote(value)}" for name, value in options.items() if value is not None]
    return f"remove {(' and ' if over_cell else ' or ').join(there)}"


@cache
def parser() -> MagicParser:
    """Make the parser of the line."""
    from accel_magic.policies.trial import DRIVER, ENGINES

    made = magic_line.new_parser(
        "gpupolicy", "POLICY...", "Try policies of a GPU's driver on a model of its memory.", EPILOG
    )
    made.usage = "%%%%gpupolicy POLICY... [options], or %%gpupolicy POLICY... --trace TRACE [options]"
    made.add_argument("-o", "--output", metavar="NAME", help="assign the result to this variable")
    made.add_argument("policies", nargs="+", metavar="POLICY", help="a shipped policy, or a file")
    made.add_argument(
        "--trace",
        metavar="TRACE",
        help="instead of a cell: a variable with a PageTrace or a result of pagetrace, a file, or a generated trace: "
        "scan, loop, zipf:blocks=512,skew=0.9...",
    )
    made.add_argument("--device", choices=("auto", "cuda", "cpu", "opencl"), help="of the cell's kernels")
    made.add_argument("--memory", metavar="SIZE", help="60%% of what is touched, 512MiB, or a number of 2 MiB chunks")
    made.add_argument(
        "--tenants",
        metavar="TENANTS",
        help='for scheduling policies: "chat*2:work=50us,every=10ms,random batch*4:work=5ms"',
    )
    made.add_argument("--duration", type=float, metavar="S", help="with --tenants: seconds that are modelled (1)")
    made.add_argument("--runs", type=int, metavar="N", help="with --tenants: runs with jobs at other times (10)")
    made.add_argument("--switch", type=float, metavar="US", help="with --tenants: us from one task to another (0)")
    made.add_argument(
        "--link",
        metavar="LINK",
        help="what times are modelled by: pcie3, pcie4 (default), pcie5, nvlink-c2c; pcie4:gb_per_s=25,fault_us=40",
    )
    made.add_argument(
        "--set",
        action="append",
        metavar="NAME=NUMBER",
        help="give a policy's constant or an entry of its map another value: quota=8, policy_config.1=8",
    )
    made.add_argument(
        "--fill",
        action="append",
        metavar="MAP=VARIABLE",
        help="fill a policy's map by block with a data frame: a column address, page or block, and one of numbers",
    )
    made.add_argument(
        "--check", action="store_true", default=None, help="only verify the policies, and look through their code"
    )
    made.add_argument(
        "--engine",
        choices=(*ENGINES, DRIVER),
        help="where policies run: in a model of the memory (default); in the kernel, in the accelerator lab only; or "
        "in this machine's NVIDIA driver with gpu_ext, while the cell runs",
    )
    made.add_argument(
        "--faults-only",
        action="store_true",
        default=None,
        help="policies hear of faults only, as with GPUs without access counters",
    )
    return made
