"""Run iaprof around a piece of code and read its recording."""

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
from accel_magic.channel import pipes
from accel_magic.errors import AccelMagicError, MachineError, TraceStateError
from accel_magic.recording.profile import Lost
from accel_magic.subsystems.iaprof import keeper
from accel_magic.subsystems.iaprof.parse import read
from accel_magic.subsystems.iaprof.profile import between
from accel_magic.subsystems.iaprof.requirements import Requirement, program, requirements, unmet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import TracebackType

    from accel_magic.subsystems.iaprof.profile import IaprofProfile

INTERVAL_MS: Final = 10
SUBSAMPLE: Final = 100
"""iaprof's defaults."""
START_S: Final = 60.0
"""iaprof loads BPF programs before its first interval, which takes seconds under load."""
TIMEOUT_S: Final = 15.0
GRACE_S: Final = 5.0
"""Extra time for the keeper."""
_POLL_S: Final = 0.01
_FILLING: Final = 100
"""Intervals until iaprof's output buffer of 4 KiB is full if nothing is sampled."""
_COLORS: Final = re.compile(r"\x1b\[[0-9;]*m")
_MATCHED: Final = re.compile(r"matched: (\d+) unmatched: (\d+)")


class IaprofRun:
    """Runs iaprof around a block, with `start` and `stop` or as a context manager; `profile` has the result.

    iaprof ends with this process, however that ends.

    Args:
        interval: Length of an interval, ms: how often iaprof writes its samples.
        eu_stall_subsample: iaprof keeps one of this many samples.
        checks: Returns the requirements to check.

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
        """The recorded profile. Raises TraceStateError until iaprof has been stopped."""
        if self._profile is None:
            raise TraceStateError(
                "iaprof has no profile yet",
                why="it has not been stopped",
                fix="read the profile after the block",
                code="trace.no-result",
            )
        return self._profile

    def prepare(self) -> Path:
        """Check iaprof's requirements and find the program, without starting it.

        Raises:
            MachineError: Requirements are missing; names all of them.

        """
        missing = unmet(self._checks())
        found = program()
        if missing or found is None:
            raise MachineError(
                "iaprof cannot record here",
                why="; ".join(f"{one.name}: {one.detail}" for one in missing) or "the program iaprof was not found",
                fix="; ".join(one.fix for one in missing if one.fix),
                code="iaprof.unusable",
            )
        return found

    def start(self) -> None:
        """Start iaprof; returns once it is recording.

        Raises:
            MachineError: A requirement is missing, iaprof exited (with its message), or it does not start recording.
            TraceStateError: It is already running.

        """
        if self._keeper is not None:
            raise TraceStateError("iaprof is already running", fix="stop it first", code="iaprof.running")
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
                fix=f"free some space in {tempfile.gettempdir()}",
                code="iaprof.not-started",
            ) from error
        except BaseException:
            self.abort()
            raise

    def go(self) -> None:
        """Start the recording here; samples since `start` are excluded."""
        self._started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._go_ns, self._halt_ns = time.monotonic_ns(), None

    def halt(self) -> None:
        """End the recording here; samples until `stop` are excluded."""
        self._halt_ns = time.monotonic_ns()

    def stop(self) -> IaprofProfile:
        """End the recording and read it.

        Raises:
            MachineError: Nothing was recorded; includes iaprof's message.
            RecordingError: Its output is not a profile.
            TraceStateError: iaprof is not running.

        """
        if self._keeper is None:
            raise TraceStateError("iaprof is not running", fix="start it first", code="iaprof.not-running")
        try:
            ended_before = self._keeper.poll() is not None
            end_ns = self._halt_ns or time.monotonic_ns()
            # iaprof discards samples after its last interval: wait until another interval has ended.
            time.sleep(max(2 * self._interval_ms / 1000 - (time.monotonic_ns() - end_ns) / 1e9, 0))
            profile = self._read(self._end(), ended_before=ended_before)
            self._profile = between(profile, self._go_ns, end_ns)
            return self._profile
        finally:
            self.abort()

    def abort(self) -> None:
        """End iaprof and discard its output; does nothing if it is not running."""
        self._end()
        made, self._scratch = self._scratch, None
        if made is not None:
            made.remove()

    def __enter__(self) -> Self:
        """Start iaprof."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop iaprof; after an error in the block, the recording is kept and errors of iaprof are suppressed."""
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
            start_new_session=True,  # Ctrl-C in the terminal must not reach it
        )
        request = {"command": command, "folder": str(made.path), "patience_s": TIMEOUT_S}
        requests, _ = pipes(process)
        with contextlib.suppress(BrokenPipeError):  # it has ended; `_wait_for_output` notices
            requests.write(json.dumps(request).encode() + b"\n")
            requests.flush()
        return process

    def _wait_for_output(self) -> None:
        """Wait for the first bytes of the profile, the only sign that iaprof is recording."""
        timeout = START_S + _FILLING * self._interval_ms / 1000
        until = time.monotonic() + timeout
        output = self._place("profile.txt")
        while not (output.exists() and output.stat().st_size):
            if self._keeper is None or self._keeper.poll() is not None:
                raise self._failed("iaprof exited before it recorded anything", code="iaprof.ended")
            if time.monotonic() > until:
                raise self._failed(f"iaprof wrote nothing within {timeout:.0f} s", code="iaprof.no-answer")
            time.sleep(_POLL_S)

    def _end(self) -> dict[str, object]:
        """End iaprof and return the keeper's answer; empty without one."""
        process, self._keeper = self._keeper, None
        if process is None:
            return {}
        try:
            # Send a word, not only the end of input: a forked child may still hold the pipe open.
            answer, _ = process.communicate(b"stop\n", TIMEOUT_S + GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()  # and the kernel kills iaprof
            answer, _ = process.communicate()
        return dict(json.loads(answer)) if answer.strip() else {}

    def _read(self, answer: dict[str, object], *, ended_before: bool) -> IaprofProfile:
        output, messages = self._place("profile.txt"), self._messages()
        if not output.exists() or not output.stat().st_size:
            raise self._failed("iaprof recorded nothing", code="iaprof.nothing-recorded")
        profile = read(output, "skip")  # count damaged lines instead of failing: samples cannot be taken again
        notes, lost = profile.notes, []
        if ended_before:
            notes = (*notes, f"iaprof exited before the profiled code ended: {_last(messages) or 'no reason given'}")
        elif answer.get("status") != 0:
            notes = (*notes, "iaprof did not stop when interrupted and was killed: the end of its profile is missing")
        if found := _MATCHED.search(messages):
            lost = [Lost(int(found[2]), "EU stall records at addresses outside the kernels known to iaprof")]
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
            what,
            why=_last(self._messages()),
            fix="run `sudo iaprof` in a terminal to see its full output",
            code=code,
        )

    def _messages(self) -> str:
        path = self._place("messages.txt")
        return _COLORS.sub("", path.read_text("utf-8", "replace")) if path.exists() else ""

    def _place(self, name: str) -> Path:
        if self._scratch is None:
            raise TraceStateError("iaprof is not running", fix="start it first", code="iaprof.not-running")
        return self._scratch.path / name


def _last(messages: str) -> str:
    """Return the last error line, else the last warning, else the last line."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    for mark in ("ERROR", "WARNING", ""):
        chosen = [line for line in lines if line.startswith(mark)]
        if chosen:
            return chosen[-1]
    return ""
