"""A GPU trace around a block: programs are verified, put into every kernel that comes by, and taken out again."""

from __future__ import annotations

import os
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from accel_magic import api, machine, session
from accel_magic.errors import MachineError, ProbeError, TraceStateError
from accel_magic.gpu import adapters, programs
from accel_magic.gpu.devices import SimulatedMemory
from accel_magic.gpu.instrument import Instrumenter
from accel_magic.gpu.live import Feed, GpuSample
from accel_magic.gpu.recorded import recording_of
from accel_magic.gpu.shared_memory import allocate_all
from accel_magic.names import means

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from accel_magic.gpu.devices import DeviceName, Memory
    from accel_magic.gpu.dry_run import GpuDryRun
    from accel_magic.gpu.model import Per
    from accel_magic.gpu.programs import Source, Verify
    from accel_magic.gpu.result import GpuResult
    from accel_magic.gpu.shared_memory import Shared
    from accel_magic.traces.recording import Outcome

DEFAULT_THREADS = 1 << 17
_CHOICES = {
    "per": (None, "thread", "warp"),
    "verify": (None, "strict", "warn", "off"),
    "device": ("cpu", "cuda"),
}


@dataclass(frozen=True)
class GpuOptions:
    """What can be asked of a GPU trace besides its programs; each is an option of `%%gputrace` too.

    Attributes:
        kernel: Glob of the kernels to trace, by their names in PTX or as C++ reads them.
        per: `thread` or `warp`, instead of what the programs say.
        verify: `strict`, `warn` or `off`; None: strict for C, warn for compiled objects.
        device: `cpu` for the simulated device, `cuda` for an NVIDIA GPU.
        threads: Threads of a grid that per-thread maps have room for.

    """

    kernel: str = "*"
    per: Per | None = None
    verify: Verify | None = None
    device: DeviceName = "cpu"
    threads: int = DEFAULT_THREADS

    def __post_init__(self) -> None:
        """Check what was asked for. Raises ProbeError."""
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise ProbeError(
                    f"{name}={getattr(self, name)!r} is not known",
                    fix=f"use one of {', '.join(filter(None, known))}",
                )
        if self.threads < 1:
            raise ProbeError(f"threads={self.threads} leaves room for none", fix="use a positive number")


class GpuTrace:
    """GPU programs around a block: `prepare`, `attach`, `go`, `stop`, or all of it as a context manager.

    Args:
        names: Names of tools, or files of the user's programs.
        options: What is asked for.
        save: Write the result to this Parquet file.

    """

    def __init__(self, names: tuple[str, ...], options: GpuOptions, *, save: str | Path | None = None) -> None:
        self.names = names
        self.options = options
        self.replayed = None
        self.imported = None
        self._save = save
        self._sources: tuple[Source, ...] = ()
        self._shared: list[Shared] = []
        self._memory: Memory | None = None
        self._instrumenter: Instrumenter | None = None
        self._undo = ExitStack()
        self._result: GpuResult | None = None
        self._started = ""
        self._start_ns = 0

    @property
    def machine(self) -> dict[str, str]:
        """Describe this machine, as the result will."""
        described = machine.describe()
        if self.options.device == "cpu":
            described["simulated"] = adapters.CPU_DEVICE
        return described

    @property
    def result(self) -> GpuResult:
        """What was traced. Raises TraceStateError until the block has ended."""
        if self._result is None:
            raise TraceStateError(
                "this trace has no result yet",
                why="it is still running" if self._instrumenter is not None else "its block was not entered",
                fix="ask after the `with` block",
            )
        return self._result

    def prepare(self) -> tuple[Source, ...]:
        """Compile and verify the programs; nothing is attached yet.

        Raises:
            ProbeError: There is no such tool or file.
            ProgramError: A program does not compile, or the verifier refuses it.
            MachineError: clang, a package of the GPU extra, or the device is missing.

        """
        found = programs.load(self.names, per=self.options.per, verify_mode=self.options.verify)
        self._sources = tuple(programs.with_budget(source, self.options.threads) for source in found)
        return self._sources

    def examine(self) -> GpuDryRun:
        """Compile the programs and say what the verifier thinks of them, also of those that it refuses.

        Raises as `prepare` does, but for programs that are refused.
        """
        from accel_magic.gpu.dry_run import GpuDryRun

        sources = programs.load(self.names, per=self.options.per, verify_mode=self.options.verify, refuse=False)
        return GpuDryRun.of(sources, self.options.threads)

    def attach(self, show: Callable[[list[GpuSample]], None] | None = None) -> None:
        """Put the maps on the device and watch the frameworks from now on; `show` receives samples from a thread."""
        session.claim()
        self._undo.callback(session.release)
        self._result = None
        try:
            with session.uninterrupted() as pending:
                self._attach(show)
            if pending:
                raise KeyboardInterrupt  # noqa: TRY301 - undone like any other failure
        except BaseException:
            self.abort()
            raise

    def _attach(self, show: Callable[[list[GpuSample]], None] | None) -> None:
        device = _simulated(self.options.device)
        self._memory = memory = SimulatedMemory(device)
        pid_tgid = os.getpid() << 32 | threading.get_native_id()
        self._shared = allocate_all(self._sources, memory, self.options.threads, pid_tgid)
        for shared in self._shared:
            self._undo.callback(shared.free)
        placements = [shared.placement for shared in self._shared]
        instrumenter = Instrumenter(self._sources, placements, self._wanted, memory.launching)
        self._instrumenter = instrumenter
        self._undo.enter_context(adapters.attached(instrumenter, device))
        self._start_ns = time.monotonic_ns()
        if show is not None:
            feed = Feed(self._sample, show)
            self._undo.callback(feed.stop)
            feed.start()

    def _wanted(self, name: str) -> bool:
        return means(self.options.kernel, name)

    def _sample(self) -> GpuSample:
        instrumenter = self._instrumenter
        assert instrumenter is not None  # noqa: S101 - samples are taken while attached
        seen = instrumenter.seen
        return GpuSample(
            time_ns=time.monotonic_ns() - self._start_ns,
            launches=len(seen.launches),
            kernels=len(seen.kernels) + len(seen.skipped),
            instrumented=sum(kernel.report.instrumented for kernel in tuple(seen.kernels)),
            lost=sum(int(shared.losses().sum()) for shared in self._shared),
        )

    def go(self) -> None:
        """The traced code starts here."""
        self._started = datetime.now().astimezone().isoformat(timespec="seconds")
        self._start_ns = time.monotonic_ns()

    def stop(self, outcome: Outcome = "ok", value: object = None) -> GpuResult:
        """Take everything out, read the maps and keep the result. Raises KeyboardInterrupt if one came meanwhile."""
        from accel_magic.gpu.result import GpuResult

        end_ns = time.monotonic_ns()
        instrumenter, memory = self._instrumenter, self._memory
        assert instrumenter is not None  # noqa: S101 - after attach
        assert memory is not None  # noqa: S101 - after attach
        try:
            with session.uninterrupted() as pending:
                recording = recording_of(
                    instrumenter.seen,
                    self._shared,
                    memory,
                    started=self._started,
                    start_ns=self._start_ns,
                    end_ns=end_ns,
                    outcome=outcome,
                    machine=self.machine,
                )
        finally:
            self.abort()
        self._result = result = GpuResult(recording, value)
        api.keep(result)
        if self._save is not None:
            result.to_parquet(self._save)
        if pending:
            raise KeyboardInterrupt
        return result

    def abort(self) -> None:
        """Take everything out without a result; harmless when nothing is attached."""
        self._undo.close()
        self._instrumenter = None
        self._shared = []

    def __enter__(self) -> Self:
        self.prepare()
        self.attach()
        self.go()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(api.outcome_of(error))


def gputrace(*names: str, save: str | Path | None = None, **options: Any) -> GpuTrace:
    """Run GPU programs around a block.

    ```python
    with accel_magic.gputrace("threadhist", device="cpu") as t:
        kernel[grid](x, y, out)
    t.result.tools["threadhist"]
    ```

    Args:
        *names: Names of tools (`threadhist`), or files of your own programs (`mine.bpf.c`, `mine.o`).
        save: Write the result to this Parquet file.
        **options: Fields of `GpuOptions`: kernel, per, verify, device, threads.

    Raises:
        ProbeError: On entering: there is no such tool or file.
        ProgramError: On entering: a program does not compile, or the verifier refuses it.
        MachineError: On entering: clang, a package of the GPU extra, or the device is missing.

    """
    if not names:
        raise ProbeError("no GPU program was named", fix="name a tool or a file: accel_magic.gputrace('threadhist')")
    return GpuTrace(names, GpuOptions(**options), save=save)


def _simulated(name: DeviceName) -> Any:
    if name == "cuda":
        raise MachineError(
            "kernels on a GPU cannot be traced yet",
            why="this version of accel_magic puts its maps on the CPU device (simulated) only",
            fix="--device cpu runs the kernels there",
        )
    from accel_magic.gpu.simt import Device

    return Device()
