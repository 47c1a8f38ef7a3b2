"""The `%%gputrace` line: its options, and how a line becomes values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel_magic import options
from accel_magic.errors import ProbeError
from accel_magic.gpu.tools import TOOLS
from accel_magic.magics import line as lines

if TYPE_CHECKING:
    from accel_magic.magics.line import Parser
    from accel_magic.options import Common

EPILOG = "\n".join(
    [
        "tools",
        *(f"  {tool.name:<16} {tool.shows}" for tool in TOOLS.values()),
        "",
        "or the file of a program of your own: mine.bpf.c (docs/gputrace.md), mine.o",
        "FUNCTION=PROBE says where a program of it for the CPU runs: on_launch=uprobe:cuda:cuLaunchKernel",
        "",
        "example",
        "  %%gputrace threadhist memtrace --kernel 'matmul*' -o t",
        "",
    ]
)


def parser() -> Parser:
    """All options of `%%gputrace`. Options left out are None: defaults come from `%config GpuTrace`."""
    result = lines.new_parser(
        "gputrace",
        "TOOL|FILE [TOOL|FILE ...]",
        "Run eBPF programs inside the GPU kernels that the cell launches; returns a GpuResult.",
        EPILOG,
    )
    add = result.add_argument
    add("programs", nargs="*", metavar="TOOL|FILE", help="what to run, see below")
    lines.add_result_options(result)
    add("--program", action="append", metavar="FILE", help="the same as naming the file")
    add("--kernel", metavar="GLOB", help="only kernels of this name, e.g. 'matmul*' (*)")
    add("--per", choices=("thread", "warp"), help="run programs in each thread, or in one lane of each warp")
    add("--verify", choices=("strict", "warn", "off"), help="what the verifier refuses (strict for C, warn for .o)")
    add(
        "--device",
        choices=("auto", "cuda", "cpu"),
        help="cuda: an NVIDIA GPU; cpu: the CPU device (simulated); auto: a GPU where there is one (auto)",
    )
    add("--gpu", type=int, metavar="N", help="which GPU, as its driver counts (that of the current context)")
    add("--threads", type=options.count, metavar="N", help="threads of a grid that per-thread maps have room for")
    add("--host-api", choices=("auto", "on", "off"), help="record the driver's calls too (auto: of a GPU's)")
    add("--every", type=options.seconds, metavar="S", help="read small maps so often while kernels run: t.history")
    add("--by-launch", action="store_true", default=None, help="read them after each launch instead: what each added")
    options.add_common_options(result, "show the verifier's report and the PTX of the programs; attach and run nothing")
    return result


OPTION_NAMES = lines.option_names(parser())


@dataclass(frozen=True)
class GpuLine:
    """The parsed line. `given` are the options that were written, by the names of `GpuOptions`."""

    programs: tuple[str, ...]
    given: dict[str, Any]
    common: Common


def parse(line: str) -> GpuLine:
    """Parse the text after `%%gputrace`.

    Raises:
        ProbeError: An unknown option, a bad value, or options that do not go together.
        HelpRequested: `--help`.

    """
    values = parser().parse_intermixed_args(lines.words_of("gputrace", line))
    programs = (*values.programs, *(values.program or ()))
    names = ("kernel", "per", "verify", "device", "gpu", "threads", "every", "by_launch", "host_api")
    given = options.given_of(values, names)
    common = options.common_of("%%gputrace", values, (programs, given))
    if common.replay is None and not programs:
        raise ProbeError(
            "%%gputrace: no tool or program given",
            why=f"the tools are {', '.join(TOOLS)}",
            fix="e.g. %%gputrace threadhist",
            code="gpu.no-program-given",
        )
    return GpuLine(programs=programs, given=given, common=common)
