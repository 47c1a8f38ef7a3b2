"""Write iaprof profiles in iaprof's own form: texts directly before their first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic.errors import RecordingError
from accel_magic.recording.result_files import destination, replacing
from accel_magic.subsystems.iaprof.profile import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from accel_magic.subsystems.iaprof.profile import IaprofProfile, LaunchedKernel

_NOT_IN_TEXTS: Final = ("\t", "\n")
_MICROSECOND: Final = 1000


def write(profile: IaprofProfile, path: str | Path) -> Path:
    """Write a profile and return the file's absolute path. `read` returns an equal profile.

    Raises:
        RecordingError: The path cannot be written to, or a text contains a tab or line end, which the format does not
            support.

    """
    target = destination(path)
    with replacing(target) as file:
        for line in lines(profile):
            file.write(line.encode())
            file.write(b"\n")
    return target


def lines(profile: IaprofProfile) -> Iterator[str]:
    """Yield the lines of the file, without line ends.

    Raises:
        RecordingError: As for `write`.

    """
    texts = _Texts()
    runs, stalls, metrics = profile.runs, profile.stalls, profile.metrics
    first_run = np.searchsorted(runs.interval, np.arange(len(profile.intervals.number) + 1)).tolist()
    first_stall = np.searchsorted(stalls.run, np.arange(len(runs.kernel) + 1)).tolist()
    first_metric = np.searchsorted(metrics.interval, np.arange(len(profile.intervals.number) + 1)).tolist()
    ends = profile.intervals.end_ns.tolist()
    for interval, number in enumerate(profile.intervals.number.tolist()):
        yield f"interval\t{number}\t{_seconds(ends[interval])}"
        for run in range(first_run[interval], first_run[interval + 1]):
            yield from texts.kernel(profile.kernels[runs.kernel[run]])
            rows = slice(first_stall[run], first_stall[run + 1])
            for offset, instruction, counts in zip(
                stalls.offset[rows].tolist(),
                stalls.instruction[rows].tolist(),
                stalls.counts[rows].tolist(),
                strict=True,
            ):
                new, id_ = texts.id(profile.instructions[instruction])
                yield from new
                yield "\t".join(("eustall", hex(offset), id_, *map(str, counts)))
        for row in range(first_metric[interval], first_metric[interval + 1]):
            yield f"metric\t{METRICS[metrics.name[row]]}\t{metrics.value[row]}"


class _Texts:
    """Ids of the texts written so far."""

    def __init__(self) -> None:
        self._ids = {"": "0"}

    def id(self, text: str) -> tuple[tuple[str, ...], str]:
        """Return the lines that define a text (none if it is already defined), and its id."""
        if text in self._ids:
            return (), self._ids[text]
        if any(mark in text for mark in _NOT_IN_TEXTS) or text.endswith("\r"):
            raise RecordingError(
                "the profile cannot be written in iaprof's format",
                why=f"{text[:60]!r} contains a tab or a line end",
                fix="replace it, or save the profile as Parquet",
                code="save.bad-text",
            )
        id_ = self._ids[text] = str(len(self._ids))
        return (f"string\t{id_}\t{text}",), id_

    def kernel(self, kernel: LaunchedKernel) -> Iterator[str]:
        ids = []
        for text in (kernel.comm, kernel.cpu_stack, kernel.file, kernel.symbol):
            new, id_ = self.id(text)
            yield from new
            ids.append(id_)
        comm, stack, file, symbol = ids
        yield f"kernel\t{kernel.address:#x}\t{comm}\t{kernel.pid}\t{stack}\t{file}\t{symbol}"


def _seconds(ns: int) -> str:
    """Format seconds with six decimals, as iaprof does, or with nine if six would lose precision."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{seconds}.{rest // 1000:06d}" if rest % _MICROSECOND == 0 else f"{seconds}.{rest:09d}"
