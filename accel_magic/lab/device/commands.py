"""What jobs do: the commands of a command buffer, read and executed through the MMU.

The layouts are those of level_zero/job_format.h. A command buffer without them, like that of `npu_load`, is a job that
only takes its time. Models are loaded and executed by another process (`lab/models`), so nothing here waits.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from accel_magic.lab.device import jsm_messages
from accel_magic.lab.device.guest_fault import GuestFault
from accel_magic.lab.device.models import LARGEST as LARGEST_MODEL
from accel_magic.lab.device.models import MOST_MODELS, ModelRequest, Models
from accel_magic.lab.models import protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accel_magic.lab.device.log import Log
    from accel_magic.lab.device.mmu import Mmu
    from accel_magic.lab.device.statistics import Statistics
    from accel_magic.lab.device.timers import Timer, Timers

JOB_AT: Final = 64
MAGIC: Final = 0x4A55504E
LARGEST: Final = 1 << 16
HEADER = struct.Struct("<IIQ")
COMMAND = struct.Struct("<IIII")
SPAN = struct.Struct("<QQ")
ANSWER = struct.Struct("<QQ")
EXECUTE, COPY, BARRIER, TIMESTAMP, SIGNAL, RESET, WAIT, LOAD, QUERY, AWAIT, UNLOAD = range(1, 12)
DONE, FAILED, NOT_READY = range(3)

HOLD_US: Final = 500_000
"""How long a job waits for a model to be loaded; then the driver library submits another that waits. On 6.12 intel_vpu
resets an NPU whose job takes two seconds."""
POLL_US: Final = 200
WORD: Final = 8
LARGEST_COPY: Final = 256 << 20
LARGEST_ANSWER: Final = 1 << 20
_SPANS: Final = {
    COPY: 2,
    BARRIER: 0,
    TIMESTAMP: 1,
    SIGNAL: 1,
    RESET: 1,
    WAIT: 1,
    LOAD: 2,
    QUERY: 2,
    AWAIT: 1,
    UNLOAD: 0,
}


@dataclass(frozen=True)
class Span:
    """An area of the NPU's address space.

    Attributes:
        address: Its start.
        size: Bytes.

    """

    address: int
    size: int


@dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
        kind: EXECUTE to UNLOAD.
        graph: Number of the graph that it is about, in its context.
        spans: What it reads and writes.

    """

    kind: int
    graph: int
    spans: tuple[Span, ...]


@dataclass
class JobWork:
    """The commands of a job that are still to be executed.

    Attributes:
        ssid: The context of their addresses.
        commands: The commands.
        done: Called with the job's status at the end; None once the job was given up.
        timer: What the work waits for, if that is time.
        answer: Key and span of the answer that it waits for; None if it does not.

    """

    ssid: int
    commands: deque[Command]
    done: Callable[[int], None] | None
    timer: Timer | None = None
    answer: tuple[int, Span] | None = None


@dataclass(frozen=True)
class Sizes:
    """Bytes of a model's arguments.

    Attributes:
        inputs: Of each input.
        outputs: Of each output.

    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def parse(read: Callable[[int, int], bytes], address: int) -> deque[Command] | None:
    """The commands of a command buffer; None if it has none.

    Args:
        read: Reads so many bytes at an address.
        address: Of the command buffer.

    Raises:
        GuestFault: They are damaged, or not readable.

    """
    magic, count, size = HEADER.unpack(read(address + JOB_AT, HEADER.size))
    if magic != MAGIC:
        return None
    if not HEADER.size <= size <= LARGEST or count > size // COMMAND.size:
        raise GuestFault("commands", f"{count} commands in {size} bytes")
    words, at = read(address + JOB_AT, size), HEADER.size
    found: deque[Command] = deque()
    for _ in range(count):
        if at + COMMAND.size > size:
            raise GuestFault("commands", f"{count} commands in {size} bytes")
        kind, graph, spans, _ = COMMAND.unpack_from(words, at)
        at += COMMAND.size
        if spans > (size - at) // SPAN.size or kind not in {EXECUTE, *_SPANS} or spans != _SPANS.get(kind, spans):
            raise GuestFault("commands", f"command {kind} with {spans} areas")
        found.append(
            Command(kind, graph, tuple(Span(*SPAN.unpack_from(words, at + i * SPAN.size)) for i in range(spans)))
        )
        at += spans * SPAN.size
    return found


def sizes_of(described: bytes) -> Sizes:
    """The sizes of a model's arguments.

    Raises:
        ValueError: The description is damaged.

    """
    try:
        count, name_size = protocol.GRAPH.unpack_from(described)
        at = protocol.GRAPH.size + name_size
        found: dict[int, list[int]] = {protocol.INPUT: [], protocol.OUTPUT: []}
        for _ in range(count):
            kind, _, _, _, size, *_, text_size = protocol.ARGUMENT.unpack_from(described, at)
            found[kind].append(size)
            at += protocol.ARGUMENT.size + text_size
    except (struct.error, KeyError) as error:
        raise ValueError(f"damaged description of a model: {error!r}") from None
    return Sizes(tuple(found[protocol.INPUT]), tuple(found[protocol.OUTPUT]))


class Commands:
    """Executes the commands of jobs.

    Args:
        mmu: Reads and writes what the commands name.
        timers: For what takes time.
        models: Loads and executes models.
        statistics: Counts models and inferences.
        log: Logs why an inference failed.
        guard: Runs an action; a `GuestFault` in it is counted, logged and suppressed.

    """

    def __init__(
        self,
        mmu: Mmu,
        timers: Timers,
        models: Models,
        *,
        statistics: Statistics,
        log: Log,
        guard: Callable[[Callable[[], None]], None],
    ) -> None:
        self._mmu = mmu
        self._timers = timers
        self._models = models
        self._counts = statistics.models
        self._log = log
        self._guard = guard
        self._sizes: dict[int, Sizes] = {}
        self._answers: dict[int, tuple[int, bytes] | None] = {}
        self._awaiting: list[JobWork] = []

    def read(self, address: int, ssid: int) -> deque[Command] | None:
        """The commands of a command buffer; None if it has none.

        Raises:
            GuestFault: They are damaged, or not mapped.

        """
        return parse(lambda at, size: self._mmu.read(at, size, ssid), address)

    def run(self, commands: deque[Command], ssid: int, done: Callable[[int], None]) -> JobWork:
        """Execute commands; calls `done` with the job's status, now or later."""
        work = JobWork(ssid, commands, done)
        self._go_on(work)
        return work

    def give_up(self, work: JobWork) -> None:
        """Execute no more of a job's commands. A model that is being executed goes on, and its outputs are dropped."""
        work.done = None
        self._stop_waiting(work)

    def release(self, ssid: int) -> None:
        """Drop the models of a context."""
        for key in [key for key in {**self._answers, **self._sizes} if key >> 32 == ssid]:
            self._forget(key)

    # One command after the other

    def _go_on(self, work: JobWork) -> None:
        """Execute commands until one has to wait, the last is done, or one fails."""
        finished = [True]
        while work.done is not None and work.commands and finished == [True]:
            finished = []
            self._guard(lambda: finished.append(self._execute(work, work.commands.popleft())))  # noqa: B023
        if finished != [False]:
            self._end(work, jsm_messages.SUCCESS if finished else jsm_messages.PARSING_ERROR)

    def _end(self, work: JobWork, status: int) -> None:
        done, work.done = work.done, None
        work.commands.clear()
        self._stop_waiting(work)
        if done is not None:
            done(status)

    def _stop_waiting(self, work: JobWork) -> None:
        if work.timer is not None:
            self._timers.cancel(work.timer)
            work.timer = None
        if work.answer is not None:
            work.answer = None
            self._awaiting.remove(work)

    def _execute(self, work: JobWork, command: Command) -> bool:
        """Execute a command; returns whether the next one can be executed now.

        Raises:
            GuestFault: The command is invalid, or names memory that is not mapped.

        """
        key, spans = work.ssid << 32 | command.graph, command.spans
        if command.kind == COPY:
            if spans[0].size != spans[1].size or spans[0].size > LARGEST_COPY:
                raise GuestFault("commands", f"copy of {spans[1].size} bytes to {spans[0].size}")
            self._mmu.write(spans[0].address, self._mmu.read(spans[1].address, spans[1].size, work.ssid), work.ssid)
        elif command.kind == TIMESTAMP:
            self._write_word(work, spans[0], time.monotonic_ns())
        elif command.kind in {SIGNAL, RESET}:
            self._write_word(work, spans[0], int(command.kind == SIGNAL))
        elif command.kind == WAIT:
            return self._wait_for_event(work, command)
        elif command.kind in {LOAD, QUERY}:
            return self._load(work, command.kind, key, *spans)
        elif command.kind == AWAIT:
            return self._await_answer(work, key, spans[0])
        elif command.kind == UNLOAD:
            self._forget(key)
        elif command.kind == EXECUTE:
            return self._infer(work, key, spans)
        return True

    def _write_word(self, work: JobWork, span: Span, value: int) -> None:
        if span.size != WORD:
            raise GuestFault("commands", f"a word of {span.size} bytes")
        self._mmu.write(span.address, value.to_bytes(WORD, "little"), work.ssid)

    def _wait_for_event(self, work: JobWork, command: Command) -> bool:
        if any(self._mmu.read(command.spans[0].address, WORD, work.ssid)):
            return True
        work.commands.appendleft(command)
        self._sleep(work, POLL_US, lambda: self._go_on(work))
        return False

    def _sleep(self, work: JobWork, delay_us: int, action: Callable[[], None]) -> None:
        def wake() -> None:
            work.timer = None
            action()

        work.timer = self._timers.after(delay_us, wake)

    # Models

    def _load(self, work: JobWork, kind: int, key: int, blob: Span, answer: Span) -> bool:
        if blob.size > LARGEST_MODEL:
            raise GuestFault("commands", f"a model of {blob.size} bytes")
        content = self._mmu.read(blob.address, blob.size, work.ssid)  # now: later the NPU may be asleep
        self._forget(key)
        while len(self._answers) >= MOST_MODELS:
            self._answers.pop(next(iter(self._answers)))
        self._answers[key] = None
        request = ModelRequest(
            protocol.LOAD if kind == LOAD else protocol.QUERY,
            key,
            content,
            max(blob.size, LARGEST_ANSWER),
            lambda good, content: self._loaded(kind, key, bytes(content[:LARGEST_ANSWER]), good=good),
        )
        self._models.request(request)
        return self._await_answer(work, key, answer)

    def _loaded(self, kind: int, key: int, content: bytes, *, good: bool) -> None:
        if key not in self._answers:  # given up
            self._models.drop([key])
            return
        if good and kind == LOAD:
            try:
                self._sizes[key] = sizes_of(content)
            except ValueError as error:
                good, content = False, str(error).encode()
        if good:
            self._counts["loaded" if kind == LOAD else "queried"] += 1
        self._answers[key] = (DONE if good else FAILED), content
        for work, span in [(work, work.answer[1]) for work in self._awaiting if work.answer and work.answer[0] == key]:
            self._stop_waiting(work)
            self._continue(work, lambda work=work, span=span: self._await_answer(work, key, span))  # type: ignore[misc]

    def _await_answer(self, work: JobWork, key: int, span: Span) -> bool:
        """Write an answer to the guest; if there is none yet, wait for it for a while."""
        if self._answers.get(key, ()) is None:
            work.answer = key, span
            self._awaiting.append(work)
            self._sleep(work, HOLD_US, lambda: self._not_ready(work))
            return False
        status, content = self._answers.pop(key, None) or (FAILED, b"the NPU was reset")
        self._write_answer(work, span, status, content)
        return True

    def _not_ready(self, work: JobWork) -> None:
        if work.answer is not None:
            _, span = work.answer
            self._stop_waiting(work)
            self._continue(work, lambda: self._write_answer(work, span, NOT_READY, b""))

    def _continue(self, work: JobWork, action: Callable[[], object]) -> None:
        """Finish a command that had to wait, then execute the next ones."""
        finished: list[object] = []
        self._guard(lambda: finished.append(action()))
        if finished:
            self._go_on(work)
        else:
            self._end(work, jsm_messages.PARSING_ERROR)

    def _write_answer(self, work: JobWork, span: Span, status: int, content: bytes) -> None:
        if not ANSWER.size <= span.size <= LARGEST_ANSWER:
            raise GuestFault("commands", f"an answer of at most {span.size} bytes")
        if ANSWER.size + len(content) > span.size:
            status, content = FAILED, f"the model's description has {len(content)} bytes".encode()
        self._mmu.write(span.address, ANSWER.pack(status, len(content)) + content, work.ssid)

    def _forget(self, key: int) -> None:
        self._answers.pop(key, None)
        self._sizes.pop(key, None)
        self._models.drop([key])

    def _infer(self, work: JobWork, key: int, spans: Sequence[Span]) -> bool:
        sizes = self._sizes.get(key)
        if sizes is None or not self._models.has(key):
            self._log.warning(f"an inference of model {key:#x}, which is not loaded")
            self._end(work, jsm_messages.ABORTED)
            return False
        expected = sizes.inputs + sizes.outputs
        slot = spans[len(expected) :]
        if tuple(span.size for span in spans[: len(expected)]) != expected or [span.size for span in slot] not in (
            [],
            [protocol.SLOT_SIZE],
        ):
            raise GuestFault("commands", f"an inference with arguments of other sizes than {expected}")
        inputs, outputs = spans[: len(sizes.inputs)], spans[len(sizes.inputs) :]
        request = ModelRequest(
            protocol.EXECUTE,
            key,
            b"".join(self._mmu.read(span.address, span.size, work.ssid) for span in inputs),
            sum(span.size for span in spans),
            lambda good, content: self._inferred(work, outputs, content, good=good),
        )
        self._models.request(request)
        return False

    def _inferred(self, work: JobWork, outputs: Sequence[Span], content: memoryview, *, good: bool) -> None:
        self._counts["executed" if good else "failed"] += 1
        if work.done is None:  # the job was given up
            return
        if not good:
            self._log.warning(f"an inference failed: {bytes(content).decode(errors='replace')}")
            self._end(work, jsm_messages.ABORTED)
            return

        def write() -> None:
            at = 0
            for span in outputs:
                self._mmu.write(span.address, bytes(content[at : at + span.size]), work.ssid)
                at += span.size

        self._continue(work, write)
