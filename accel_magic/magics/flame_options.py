"""The `%%flame` line: its options, and how a line becomes values."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from accel_magic import options
from accel_magic.errors import ProbeError
from accel_magic.flames.options import Sampler
from accel_magic.magics import line as lines

if TYPE_CHECKING:
    from accel_magic.magics.line import Parser
    from accel_magic.options import Common

EPILOG = """\
examples
  %%flame                                      samples of what ran on a processor, 99 a second
  %%flame --off-cpu 100 --threads              and waits of 100 us or more, each thread apart
  %%flame --with intel_vpu:ivpu_*_ioctl -o t   and calls into the NPU's driver, as spans
  %%flame --gpu                                and GPU kernels, under the line that launched them
"""


def parser() -> Parser:
    """All options of `%%flame`. Options left out are None: defaults come from `%config Flame`."""
    result = lines.new_parser(
        "flame",
        "[PROBE ...]",
        "Profile the cell: where its time goes, by stack, as a flame graph; returns a FlameResult.",
        EPILOG,
    )
    add = result.add_argument
    add("probes", nargs="*", metavar="PROBE", help="the same as --with PROBE")
    lines.add_result_options(result)
    add("--rate", type=_rate, metavar="HZ", help="samples per second of each busy processor (99)")
    add(
        "--off-cpu",
        nargs="?",
        type=_microseconds,
        const=True,
        metavar="MIN_US",
        help="waits too, by reason; with a number those of at least so many microseconds",
    )
    add("--no-off-cpu", dest="off_cpu", action="store_const", const=False, help="only what ran on a processor")
    add("--threads", action=argparse.BooleanOptionalAction, default=None, help="each thread's stacks apart")
    add("--with", dest="more", nargs="+", action="extend", metavar="PROBE", help="trace these too, calls as spans")
    add("--gpu", action="store_true", default=None, help="time of GPU kernels, under the line that launched them")
    add("--device", choices=("auto", "cuda", "cpu"), help="with --gpu: cpu is the CPU device (simulated)")
    add("--xe", action="store_true", default=None, help="run iaprof around the cell too, for Intel's Xe GPUs")
    add("--interval", type=_milliseconds, metavar="MS", help="with --xe: length of iaprof's intervals (10)")
    add("--eu-stall-subsample", type=options.count, metavar="N", help="with --xe: iaprof keeps one of N samples (100)")
    add("--sampler", choices=get_args(Sampler), help="bpf: in the kernel; thread: needs no privilege (auto)")
    add("--all-frames", action="store_true", default=None, help="keep the notebook's own frames below the cell")
    add("--max-events", type=options.count, metavar="N", help="keep no more than N samples, waits and calls")
    add("--buffer", type=options.mebibytes, metavar="MIB", help="size of the ring buffers in MiB (64)")
    options.add_common_options(result, "show what would be traced and the generated C; attach and run nothing")
    return result


def _rate(text: str) -> int:
    return int(options.positive(text, int, "a whole number of samples per second"))


def _milliseconds(text: str) -> int:
    return int(options.positive(text, int, "a whole number of milliseconds"))


def _microseconds(text: str) -> float:
    return float(options.positive(text, float, "a positive number of microseconds"))


OPTION_NAMES = lines.option_names(parser())
_NAMES = (
    *("rate", "off_cpu", "threads", "gpu", "device", "xe", "interval", "eu_stall_subsample"),
    *("sampler", "all_frames", "max_events", "buffer"),
)


@dataclass(frozen=True)
class FlameLine:
    """The parsed line. `given` are the options that were written, by the names of `FlameOptions`."""

    given: dict[str, Any]
    common: Common


def parse(line: str) -> FlameLine:
    """Parse the text after `%%flame`.

    Raises:
        ProbeError: An unknown option, a bad value, or options that do not go together.
        HelpRequested: `--help`.

    """
    values = parser().parse_intermixed_args(lines.words_of("flame", line))
    given = options.given_of(values, _NAMES)
    probes = (*values.probes, *(values.more or ()))
    if probes:
        given["probes"] = probes
    common = options.common_of("%%flame", values, (given,))
    if "device" in given and not given.get("gpu") and common.replay is None:
        raise ProbeError("--device belongs to --gpu", fix="add --gpu", code="option.device-without-gpu")
    return FlameLine(given=given, common=common)
