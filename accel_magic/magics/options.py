"""The `%%ktrace` line: its options, and how a line becomes values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel_magic import options
from accel_magic.errors import ProbeError
from accel_magic.magics import line as lines

if TYPE_CHECKING:
    from accel_magic.magics.line import Parser
    from accel_magic.options import Common

EPILOG = f"""\
{options.PROBES}
example
  %%ktrace tracepoint:syscalls:sys_enter_ioctl latency:uprobe:libc:malloc -o t
"""


def parser() -> Parser:
    """All options of `%%ktrace`. Options left out are None: defaults come from `%config KTrace`."""
    result = lines.new_parser(
        "ktrace",
        "PROBE [PROBE ...]",
        "Trace what the cell does, with live counters; returns a TraceResult.",
        EPILOG,
    )
    result.add_argument("probes", nargs="*", metavar="PROBE", help="what to trace, see below")
    lines.add_result_options(result)
    options.add_trace_options(result, traced="the cell", own="this notebook's processes")
    options.add_program_option(result)
    options.add_common_options(result, "show matched probes and the generated C; attach and run nothing")
    return result


OPTION_NAMES = lines.option_names(parser())


@dataclass(frozen=True)
class Line:
    """The parsed line. `given` are the trace options that were written, by the names of `accel_magic.api.Options`."""

    probes: tuple[str, ...]
    given: dict[str, Any]
    program: str | None
    common: Common


def parse(line: str) -> Line:
    """Parse the text after `%%ktrace`.

    Raises:
        ProbeError: An unknown option, a bad value, or options that do not go together.
        HelpRequested: `--help`.

    """
    values = parser().parse_intermixed_args(options.with_kinds(lines.words_of("ktrace", line)))
    given = options.given_of(values)
    common = options.common_of("%%ktrace", values, (values.probes, given, values.program))
    if common.replay is None and not values.probes and values.program is None:
        raise ProbeError(
            "%%ktrace: no probe given",
            fix="e.g. %%ktrace tracepoint:syscalls:sys_enter_ioctl",
            code="probe.none-given",
        )
    return Line(probes=tuple(values.probes), given=given, program=values.program, common=common)
