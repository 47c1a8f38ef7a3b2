"""Read the output of intel/iaprof, block by block.

`eustall` lines, which make up most of a long profile, are parsed in bulk; the few others one by one, in order. Line
numbers then relate the rows of both.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from accel_magic.errors import RecordingError
from accel_magic.formats import text_file
from accel_magic.subsystems.iaprof import profile_lines
from accel_magic.subsystems.iaprof.profile import (
    MOST,
    REASONS,
    IaprofProfile,
    Intervals,
    LaunchedKernel,
    MetricLines,
    Runs,
    StallLines,
    by_appearance,
)
from accel_magic.subsystems.iaprof.profile_lines import Damage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import BinaryIO, TextIO

    from numpy.typing import NDArray

    from accel_magic.subsystems.iaprof.profile_lines import KernelLine


Errors = Literal["strict", "skip"]

BLOCK: Final = 4 << 20
_LONGEST_LINE: Final = 16 << 20
_NO_KERNEL, _KERNEL_DROPPED = -1, -2
"""Values in place of a run: no `kernel` line in this interval yet; the last one was, or may have been, dropped."""
_FIX: Final = (
    "record again, or skip and count damaged lines: "
    'accel_magic.subsystems.iaprof.result.open_profile(path, errors="skip")'
)


def read(source: str | Path | BinaryIO | TextIO, errors: Errors = "strict") -> IaprofProfile:
    r"""Read an iaprof profile.

    Damage is: an unknown tag or metric, a wrong number of fields, an invalid or too large number, a text id that is
    undefined or defined twice with different texts, samples without a kernel, data without an interval, intervals out
    of order, and a last line without a line end. Lines may end in `\r\n`. Bytes of a text that are not UTF-8 are kept
    as `\xNN` and counted in a note, because the kernel truncates process names at 15 bytes.

    Args:
        source: Path, or a stream.
        errors: `strict`: the first damaged line is an error. `skip`: damaged lines are dropped and counted, together
            with lines that cannot be attributed without them.

    Raises:
        RecordingError: The source cannot be read, is empty, or is damaged (strict); names the line.
        ValueError: `errors` is neither of the two.

    """
    if errors not in ("strict", "skip"):
        raise ValueError(f"errors must be 'strict' or 'skip', not {errors!r}")
    if not isinstance(source, (str, Path)):
        return _Parser("this stream", errors).run(source)
    path = Path(source).expanduser()
    try:
        with text_file.opened(path) as file:
            return _Parser(str(path), errors).run(file)
    except OSError as error:
        raise RecordingError(
            f"cannot read {path}",
            why=error.strerror or str(error),
            fix="check the path and its permissions",
            code="recording.unreadable",
        ) from error


class _Parser:
    """Parses one profile."""

    def __init__(self, name: str, errors: Errors) -> None:
        self._name = name
        self._strict = errors == "strict"
        self._found = Collected()
        self._dropped: dict[str, int] = {}
        self._ids: dict[int, int] = {0: 0}
        self._defined: dict[int, int] = {0: 0}
        """Line of each text's definition, by its id."""
        self._kernels: dict[bytes, KernelLine] = {}
        """Valid `kernel` lines, most of which are repeated in every interval."""
        self._inexact = 0
        self._line = 0
        """Number of lines before the current block."""
        self._interval = -1
        self._interval_lost = False
        self._run = _NO_KERNEL
        self._total = 0
        self._records: dict[bytes, Callable[[list[bytes], int], None]] = {
            b"string": self._string,
            b"interval": self._begin,
            b"kernel": self._kernel,
            b"metric": self._metric,
        }

    def run(self, file: BinaryIO | TextIO) -> IaprofProfile:
        for block in self._blocks(file):
            self._block(block)
        if not self._line:
            raise RecordingError(
                f"{self._name} is empty",
                why="an iaprof profile has at least one line",
                fix=_FIX,
                code="recording.empty",
            )
        notes = []
        if self._inexact:
            what = "text has" if self._inexact == 1 else "texts have"
            notes.append(f"{self._inexact:,} {what} bytes that are not UTF-8, shown as \\xNN")
        return self._found.profile(MappingProxyType(dict(self._dropped)), tuple(notes))

    def _blocks(self, file: BinaryIO | TextIO) -> Iterator[bytes]:
        """Yield complete lines, a few megabytes at a time."""
        rest = b""
        while read := file.read(BLOCK):
            data = read.encode("utf-8", "surrogateescape") if isinstance(read, str) else read
            whole, newline, tail = data.rpartition(b"\n")
            if newline:
                yield rest + whole + newline
                rest = tail
            else:
                rest += tail
            if len(rest) > _LONGEST_LINE:
                number = self._line + 1
                raise RecordingError(
                    f"line {number} of {self._name} is too long",
                    why="it is longer than 16 MiB: this is not an iaprof profile",
                    fix=_FIX,
                    code="recording.line-too-long",
                )
        if rest:
            self._line += 1
            self._damaged(self._line, Damage("cut off", "the file ends in the middle of the line"))

    def _block(self, data: bytes) -> None:
        if b"\r\n" in data:
            data = data.replace(b"\r\n", b"\n")
        block = np.frombuffer(data, np.uint8)
        found = profile_lines.lines(block)
        stalls = profile_lines.tagged(block, found)
        others = np.flatnonzero(~stalls)
        stopped: tuple[int, Damage] | None = None
        runs = [self._run]
        for row, start, end in zip(
            others.tolist(), found.starts[others].tolist(), found.ends[others].tolist(), strict=True
        ):
            try:
                self._other(data[start:end], self._line + row + 1)
            except Damage as damage:
                if self._strict:
                    stopped = row, damage  # an earlier line may be damaged too, and is reported first
                    break
                self._damaged(self._line + row + 1, damage)
            runs.append(self._run)
        rows = np.flatnonzero(stalls)
        if stopped is not None:
            rows = rows[rows < stopped[0]]
        if len(rows):
            belongs = np.array(runs, np.int64)[np.searchsorted(others, rows)]
            self._stalls(data, block, profile_lines.Lines(found.starts[rows], found.ends[rows]), rows, belongs)
        if stopped is not None:
            self._damaged(self._line + stopped[0] + 1, stopped[1])
        self._line += len(found.ends)

    def _other(self, line: bytes, number: int) -> None:
        if line in self._kernels and self._interval >= 0 and not self._interval_lost:
            self._run = self._found.run(self._interval, self._kernels[line])
            return
        fields = line.split(b"\t")
        record = self._records.get(fields[0])
        if record is None:
            if fields[0] == b"eustall":  # too short for bulk parsing
                profile_lines.stall(fields)
            self._run = _KERNEL_DROPPED  # it may have been a kernel
            if fields[0] in profile_lines.OLDER:
                raise Damage("format of iaprof 0.5 or older", "only the format of iaprof 2026 and newer is supported")
            raise Damage("unknown tag", repr(fields[0][:40].decode(errors="backslashreplace")))
        record(fields, number)

    def _string(self, fields: list[bytes], number: int) -> None:
        read = profile_lines.text(fields)
        place = self._found.text(read.text)
        if self._ids.setdefault(read.id, place) != place:
            raise Damage(
                "string id defined twice", f"{read.id} is {self._found.texts[self._ids[read.id]]!r} and {read.text!r}"
            )
        self._defined.setdefault(read.id, number)
        self._inexact += not read.exact

    def _begin(self, fields: list[bytes], number: int) -> None:  # noqa: ARG002 - all records take both
        self._run, self._interval_lost = _KERNEL_DROPPED, True
        read = profile_lines.interval(fields)
        last = self._found.last_interval
        if last is not None and (read.number <= last[0] or read.end_ns < last[1]):
            detail = f"{read.number} at {read.end_ns} ns after {last[0]} at {last[1]} ns: two profiles in one file?"
            raise Damage("interval goes back", detail)
        self._interval = self._found.interval(read.number, read.end_ns)
        self._run, self._interval_lost = _NO_KERNEL, False

    def _kernel(self, fields: list[bytes], number: int) -> None:  # noqa: ARG002
        self._run = _KERNEL_DROPPED
        self._check_interval("kernel")
        read = profile_lines.kernel(fields)
        placed = read._replace(
            comm=self._text(read.comm),
            cpu_stack=self._text(read.cpu_stack),
            file=self._text(read.file),
            symbol=self._text(read.symbol),
        )
        self._run = self._found.run(self._interval, placed)
        self._kernels[b"\t".join(fields)] = placed

    def _metric(self, fields: list[bytes], number: int) -> None:  # noqa: ARG002
        self._check_interval("metric")
        read = profile_lines.metric(fields)
        self._found.metric(self._interval, read.name, read.value)

    def _check_interval(self, tag: str) -> None:
        if self._interval_lost:
            raise Damage("its interval was dropped", f"`{tag}`")
        if self._interval < 0:
            raise Damage("no interval before it", f"`{tag}`")

    def _text(self, id_: int) -> int:
        if id_ not in self._ids:
            raise Damage("unknown string id", str(id_))
        return self._ids[id_]

    def _stalls(
        self,
        data: bytes,
        block: NDArray[np.uint8],
        found: profile_lines.Lines,
        rows: NDArray[np.intp],
        runs: NDArray[np.int64],
    ) -> None:
        """Add `eustall` lines: `rows` are their line indices in the block, `runs` the runs that they belong to."""
        read = profile_lines.read(block, found)
        damages: dict[int, Damage] = {}
        for place in np.flatnonzero(~read.read).tolist():
            try:
                values = profile_lines.stall(data[found.starts[place] : found.ends[place]].split(b"\t"))
                read.offset[place], read.text_id[place], read.counts[place] = values
                read.read[place] = True
            except Damage as damage:
                damages[place] = damage
        texts, known = self._texts(read.text_id, rows)
        for place in np.flatnonzero(read.read & ~known).tolist():
            damages[place] = Damage("unknown string id", str(int(read.text_id[place])))
        for place in np.flatnonzero(read.read & known & (runs < 0)).tolist():
            lost = runs[place] == _KERNEL_DROPPED
            damages[place] = Damage("its kernel was dropped" if lost else "no kernel before it")
        for place in sorted(damages):
            self._damaged(self._line + int(rows[place]) + 1, damages[place])
        kept = np.ones(len(rows), np.bool_)
        kept[list(damages)] = False
        self._add_up(read.counts[kept], rows[kept])
        self._found.stalls(
            runs[kept].astype(np.int32), read.offset[kept], texts[kept].astype(np.int32), read.counts[kept]
        )

    def _texts(self, ids: NDArray[np.int64], rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Indices of the texts of these ids, and whether they were defined before their rows."""
        unique, inverse = np.unique(ids, return_inverse=True)
        never = np.iinfo(np.int64).max
        places = np.array([self._ids.get(id_, 0) for id_ in unique.tolist()], np.int64)
        defined = np.array([self._defined.get(id_, never) for id_ in unique.tolist()], np.int64)
        return places[inverse], defined[inverse] < self._line + rows + 1

    def _add_up(self, counts: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        """Check that the sum of all samples is below 2^63, so that all partial sums are exact."""
        if float(counts.sum(dtype=np.float64)) + self._total < MOST / 2:
            self._total += int(counts.sum())
            return
        for row, line in zip(rows.tolist(), counts.tolist(), strict=True):
            self._total += sum(line)
            if self._total > MOST:
                raise RecordingError(
                    f"the samples up to line {self._line + row + 1} of {self._name} cannot be summed",
                    why="the sum of all samples is over 2^63 - 1",
                    fix="record again: the file must be damaged",
                    code="recording.overflow",
                )

    def _damaged(self, number: int, damage: Damage) -> None:
        if self._strict:
            why = f"{damage.reason}: {damage.detail}" if damage.detail else damage.reason
            raise RecordingError(
                f"line {number} of {self._name} is damaged", why=why, fix=_FIX, code="recording.damaged"
            )
        self._dropped[damage.reason] = self._dropped.get(damage.reason, 0) + 1


class Collected:
    """Collects records. Texts are numbered, with 0 for the empty text; only texts in use get into the profile."""

    def __init__(self) -> None:
        self.texts: list[str] = [""]
        self._places: dict[str, int] = {"": 0}
        self._intervals: list[tuple[int, int]] = []
        self._kernels: dict[KernelLine, int] = {}
        self._runs: list[tuple[int, int]] = []
        self._metrics: list[tuple[int, int, int]] = []
        self._stalls: list[StallLines] = []

    @property
    def last_interval(self) -> tuple[int, int] | None:
        """Number and end of the last interval."""
        return self._intervals[-1] if self._intervals else None

    def text(self, text: str) -> int:
        """Return the index of a text, adding it if it is new."""
        place = self._places.setdefault(text, len(self.texts))
        if place == len(self.texts):
            self.texts.append(text)
        return place

    def interval(self, number: int, end_ns: int) -> int:
        """Add an interval and return its row."""
        self._intervals.append((number, end_ns))
        return len(self._intervals) - 1

    def run(self, interval: int, kernel: KernelLine) -> int:
        """Add a run and return its row; the kernel's texts are given by index."""
        self._runs.append((interval, self._kernels.setdefault(kernel, len(self._kernels))))
        return len(self._runs) - 1

    def metric(self, interval: int, name: int, value: int) -> None:
        """Add a metric."""
        self._metrics.append((interval, name, value))

    def stalls(
        self,
        run: NDArray[np.int32],
        offset: NDArray[np.uint64],
        instruction: NDArray[np.int32],
        counts: NDArray[np.int64],
    ) -> None:
        """Add `eustall` lines; `instruction` is the index of a text."""
        self._stalls.append(StallLines(run, offset, instruction, counts))

    def profile(self, dropped: Mapping[str, int], notes: tuple[str, ...]) -> IaprofProfile:
        """Build the profile."""
        stalls = self._joined()
        instructions, numbers = by_appearance(stalls.instruction, len(self.texts))
        intervals = np.array(self._intervals, np.int64).reshape(-1, 2)
        runs = np.array(self._runs, np.int32).reshape(-1, 2)
        metrics = np.array(self._metrics, np.int64).reshape(-1, 3)
        text = self.texts.__getitem__
        return IaprofProfile(
            intervals=Intervals(intervals[:, 0].copy(), intervals[:, 1].copy()),
            kernels=tuple(
                LaunchedKernel(address, text(comm), pid, text(stack), text(file), text(symbol))
                for address, comm, pid, stack, file, symbol in self._kernels
            ),
            instructions=tuple(map(text, instructions)),
            runs=Runs(runs[:, 0].copy(), runs[:, 1].copy()),
            stalls=StallLines(stalls.run, stalls.offset, numbers, stalls.counts),
            metrics=MetricLines(metrics[:, 0].astype(np.int32), metrics[:, 1].astype(np.uint8), metrics[:, 2].copy()),
            dropped=dropped,
            notes=notes,
        )

    def _joined(self) -> StallLines:
        none = StallLines(
            np.zeros(0, np.int32),
            np.zeros(0, np.uint64),
            np.zeros(0, np.int32),
            np.zeros((0, len(REASONS)), np.int64),
        )
        parts, self._stalls = self._stalls or [none], []
        return StallLines(
            np.concatenate([part.run for part in parts]),
            np.concatenate([part.offset for part in parts]),
            np.concatenate([part.instruction for part in parts]),
            np.concatenate([part.counts for part in parts]),
        )
