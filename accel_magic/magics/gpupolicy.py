"""`%%gpupolicy`: try policies of a GPU's driver on the cell's accesses, or on a trace."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand, output_can_be_silenced

from accel_magic.api.options import check_output
from accel_magic.errors import ProbeError
from accel_magic.magics import line as lines

if TYPE_CHECKING:
    from accel_magic.magics.gputrace import GpuTrace
    from accel_magic.magics.line import Parser
    from accel_magic.results.policies import PolicyResult

EPILOG = """
policies
  names of shipped ones (bpf/policies/), or files: mine.bpf.c, mine.o

examples
  %%gpupolicy mru lfu --memory 60% -o p      (over a cell that runs GPU kernels)
  %gpupolicy lfu mru --trace zipf:blocks=512 --memory 60% -o p
"""


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
    def gpupolicy(self, line: str, cell: str | None = None) -> PolicyResult | None:
        """Try policies on the pages that the cell's kernels access, or on a trace; `%gpupolicy --help`."""
        __tracebackhide__ = True
        from accel_magic.api.gpupolicy import gpupolicy

        try:
            given = parser().parse_args(lines.words_of("gpupolicy", line))
        except lines.HelpRequested as help_text:
            print(help_text)
            return None
        check_output(given.output)
        if (given.trace is None) == (cell is None):
            raise ProbeError(
                "there is nothing to try policies on"
                if cell is None
                else "there are two traces: the cell's, and --trace",
                fix="name a trace, e.g. --trace zipf, or write %%gpupolicy over a cell that runs GPU kernels",
                code="policy.one-trace",
            )
        names = self.shell.user_ns if self.shell else {}
        device = f" --device {given.device}" if given.device else ""
        traced: Any = self._gputrace.run(f"pagetrace{device}", cell) if cell is not None else None
        trace: Any = traced if traced is not None else names.get(given.trace, given.trace)
        result = gpupolicy(
            given.policies,
            trace,
            memory=given.memory or "50%",
            faults_only=bool(given.faults_only),
            engine=given.engine or "model",
        )
        if given.output:
            names[given.output] = result
        if traced is not None:
            result.value = traced.value
        return result


@cache
def parser() -> Parser:
    """Make the parser of the line."""
    made = lines.new_parser(
        "gpupolicy", "POLICY...", "Try policies of a GPU's driver on a model of its memory.", EPILOG
    )
    made.usage = "%%%%gpupolicy POLICY... [options], or %%gpupolicy POLICY... --trace TRACE [options]"
    lines.add_result_options(made)
    made.add_argument("policies", nargs="+", metavar="POLICY", help="a shipped policy, or a file")
    made.add_argument(
        "--trace",
        metavar="TRACE",
        help="instead of a cell: a variable with a PageTrace or a result of pagetrace, a file, or a generated trace: "
        "scan, loop, zipf:blocks=512,skew=0.9...",
    )
    made.add_argument("--device", choices=("auto", "cuda", "cpu"), help="of the cell's kernels")
    made.add_argument("--memory", metavar="SIZE", help="60%% of what is touched, 512MiB, or a number of 2 MiB chunks")
    made.add_argument(
        "--engine",
        choices=("model", "kernel"),
        help="where policies run: in a model of the memory (default), or in the kernel, in the accelerator lab only",
    )
    made.add_argument(
        "--faults-only",
        action="store_true",
        default=None,
        help="policies hear of faults only, as with GPUs without access counters",
    )
    return made
