"""Running iaprof around a piece of code, and reading what it recorded."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Self

from accel_magic import machine, scratch
from accel_magic.errors import AccelMagicError, MachineError, TraceStateError
from accel_magic.profiles.iaprof import keeper
from accel_magic.profiles.iaprof.cut import between
from accel_magic.profiles.iaprof.parse import read
from accel_magic.profiles.iaprof.requirements import Requirement, program, requirements, unmet
from accel_magic.profiles.model import Lost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from accel_magic.profiles.iaprof.model import IaprofProfile

INTERVAL_MS: Final = 10
SUBSAMPLE: Final = 100
"""iaprof's own defaults."""
START_S: Final = 60.0
"""iaprof loads BPF programs before its first interval; under load that takes seconds."""
PATIENCE_S: Final = 15.0
GRACE_S: Final = 5.0
"""What the keeper may take beyond that."""
_POLL_S: Final = 0.01
_FILLING: Final = 100
"""Intervals until its output's buffer of 4 KiB is full, when nothing is sampled."""
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_MATCHED: Final = re.compile(r"matched: (\d+) unmatched: (\d+)")


class IaprofRun:
    """iaprof around a block: `start` and `stop`, or all of it as a context manager; then `profile` holds it.

    iaprof ends with this process, however that ends.

    Args:
        interval: Length of an interval, ms: how often it writes what it sampled.
        eu_stall_subsample: It keeps one of so many samples.
        checks: What it needs here.

    """

    def __init__(
        self,
        *,
        interval: int = INTERVAL_MS,
        eu_stall_subsample: int = SUBSAMPLE,
        checks: Callable[[], Sequence[Requirement]] = requirements,
    ) -> None:
        self._interval_ms = interval
        self._subsample = eu_stall_subsample
        self._checks = checks
        self._scratch: scratch.Scratch | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._started, self._go_ns = "", 0
        self._halt_ns: int | None = None
        self._profile: IaprofProfile | None = None

    @property
    def profile(self) -> IaprofProfile:
        """What was recorded. Raises TraceStateError until it was stopped."""
        if self._profile is None:
            raise TraceStateError(
                "iaprof has no profile yet", why="it was not stopped", fix="ask after the block", code="trace.no-result"
            )
        return self._profile

    def prepare(self) -> Path:
        """Check what iaprof needs, and find it; nothing is started yet.

        Raises:
            MachineError: Something is missing; names all of it.

        """
        missing = unmet(self._checks())
        found = program()
        if missing or found is None:
            raise MachineError(
                "iaprof cannot record here",
                why="; ".join(f"{one.name}: {one.detail}" for one in missing) or "the program iaprof is not found",
                fix="; ".join(one.fix for one in missing if one.fix),
                code="iaprof.unusable",
            )
        return found

    def start(self) -> None:
        """Start iaprof; returns when it records.

        Raises:
            MachineError: Something is missing, or it ended, with what it said; or it does not begin.
            TraceStateError: It is running already.

        """
        if self._keeper is not None:
            raise TraceStateError("iaprof is running already", fix="stop it first", code="iaprof.running")
        command = [
            str(self.prepare()),
            f"--interval={self._interval_ms}",
            f"--eu-stall-subsample={self._subsample}",
        ]
        self._profile = None
        try:
            self._scratch = scratch.make("iaprof")
            self._keeper = self._kept(command, self._scratch)
            self._wait_for_output()
            self.go()
        except OSError as error:
            self.abort()
            raise MachineError(
                "iaprof cannot be started",
                why=str(error),
                fix=f"make room in {tempfile.gettempdir()}",
                code="iaprof.not-started",
            ) from error
        except BaseException:
            self.abort()
            raise

    def go(self) -> None:
        """Let the recording begin here: what was sampled since `start` is left out."""
        self._started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._go_ns, self._halt_ns = time.monotonic_ns(), None

    def halt(self) -> None:
        """Let the recording end here: what is sampled from here to `stop` is left out."""
        self._halt_ns = time.monotonic_ns()

    def stop(self) -> IaprofProfile:
        """End the recording and read it.

        Raises:
            MachineError: Nothing was recorded; with what iaprof said.
            RecordingError: What it wrote is no profile at all.
            TraceStateError: It is not running.

        """
        if self._keeper is None:
            raise TraceStateError("iaprof is not running", fix="start it first", code="iaprof.not-running")
        try:
            ended_before = self._keeper.poll() is not None
            end_ns = self._halt_ns or time.monotonic_ns()
            # What came after its last interval iaprof throws away: let one more end after the last of our work.
            time.sleep(max(2 * self._interval_ms / 1000 - (time.monotonic_ns() - end_ns) / 1e9, 0))
            profile = self._read(self._end(), ended_before=ended_before)
            self._profile = between(profile, self._go_ns, end_ns)
            return self._profile
        finally:
            self.abort()

    def abort(self) -> None:
        """End iaprof and throw away what it wrote; nothing where it is not running."""
        self._end()
        made, self._scratch = self._scratch, None
        if made is not None:
            made.remove()

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it; what was recorded until an error is kept, and the block's own error goes before iaprof's."""
        with contextlib.suppress(AccelMagicError) if error is not None else contextlib.nullcontext():
            self.stop()

    @staticmethod
    def _kept(command: list[str], made: scratch.Scratch) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(made.lock,),
            start_new_session=True,  # Ctrl-C in the terminal is for the notebook
        )
        request = {"command": command, "folder": str(made.path), "patience_s": PATIENCE_S}
        assert process.stdin is not None  # noqa: S101 - a pipe
        with contextlib.suppress(BrokenPipeError):  # it ended, which the one that waits for it will see
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        return process

    def _wait_for_output(self) -> None:
        """Wait for the first bytes of the profile: iaprof says in no other way that it records."""
        patience = START_S + _FILLING * self._interval_ms / 1000
        until = time.monotonic() + patience
        output = self._place("profile.txt")
        while not (output.exists() and output.stat().st_size):
            if self._keeper is None or self._keeper.poll() is not None:
                raise self._failed("iaprof ended before it recorded anything", code="iaprof.ended")
            if time.monotonic() > until:
                raise self._failed(f"iaprof wrote nothing within {patience:.0f} s", code="iaprof.no-answer")
            time.sleep(_POLL_S)

    def _end(self) -> dict[str, object]:
        """Have iaprof ended, and return the keeper's answer; empty where it has none."""
        process, self._keeper = self._keeper, None
        if process is None:
            return {}
        try:
            # A word besides the end of the input: a forked child may still hold that open.
            answer, _ = process.communicate(b"stop\n", PATIENCE_S + GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()  # and the kernel kills iaprof
            answer, _ = process.communicate()
        return dict(json.loads(answer)) if answer.strip() else {}

    def _read(self, answer: dict[str, object], *, ended_before: bool) -> IaprofProfile:
        output, messages = self._place("profile.txt"), self._messages()
        if not output.exists() or not output.stat().st_size:
            raise self._failed("iaprof recorded nothing", code="iaprof.nothing-recorded")
        profile = read(output, "skip")  # damage is counted: what was sampled cannot be sampled again
        notes, lost = profile.notes, []
        if ended_before:
            notes = (*notes, f"iaprof ended before the profiled code did: {_last(messages) or 'it did not say why'}")
        elif answer.get("status") != 0:
            notes = (*notes, "iaprof did not end when asked to and was killed: the end of its profile is missing")
        if found := _MATCHED.search(messages):
            lost = [Lost(int(found[2]), "EU stall records at addresses of no kernel that iaprof knew")]
        return replace(
            profile,
            subsample=self._subsample,
            started=self._started,
            machine=machine.describe(),
            notes=notes,
            lost=tuple(one for one in lost if one.count),
        )

    def _failed(self, what: str, *, code: str) -> MachineError:
        return MachineError(
            what, why=_last(self._messages()), fix="run `sudo iaprof` in a terminal to see all it says", code=code
        )

    def _messages(self) -> str:
        path = self._place("messages.txt")
        return _COLOURS.sub("", path.read_text("utf-8", "replace")) if path.exists() else ""

    def _place(self, name: str) -> Path:
        if self._scratch is None:
            raise TraceStateError("iaprof is not running", fix="start it first", code="iaprof.not-running")
        return self._scratch.path / name


def _last(messages: str) -> str:
    """The last line that names an error, else the last warning, else the last of all."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    for mark in ("ERROR", "WARNING", ""):
        chosen = [line for line in lines if line.startswith(mark)]
        if chosen:
            return chosen[-1]
    return ""
