"""The kernel trace of driver calls within a GPU trace."""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from accel_magic.broker import broker_socket
from accel_magic.engine import session
from accel_magic.errors import AccelMagicError, MachineError, ProbeError
from accel_magic.gpu.host.own_calls import Stretches
from accel_magic.kernel import features
from accel_magic.probes.grammar import parse_all
from accel_magic.probes.matching import make_plan
from accel_magic.probes.plan import Plan, TraceRequest
from accel_magic.recording.gpu_data import NOT_WANTED
from accel_magic.subsystems.host_api.cuda import INSTALL, LIBRARY, NAME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from accel_magic.devices.device import DeviceName
    from accel_magic.engine.session import Attached
    from accel_magic.recording.recording import Outcome, Recording

M = TypeVar("M")
HostApiMode = Literal["auto", "on", "off"]
MOST_CALLS: Final = 1_000_000
"""Calls that are recorded, about 150 bytes each; later ones are only counted."""
BUFFER_MIB: Final = 32.0
_SIMULATED: Final = "the device is simulated: --host-api on records calls into its mock CUDA driver"
_WRAPPED: Final = ("module", "context")
"""Kinds of calls in which the shim itself calls the driver."""
_FILE: Final = re.compile(r"libcuda\.so\.[\d.]+")


@dataclass(frozen=True)
class HostCalls:
    """The recorded driver calls.

    Attributes:
        frame: Columns as in `recording.gpu_data.API`, times on CLOCK_MONOTONIC, not yet joined to launches; None if
            calls were not recorded.
        lost: Calls whose record was lost.
        notes: Notes for the user.
        off: Why calls were not recorded; '' if they were.

    """

    frame: pd.DataFrame | None = None
    lost: int = 0
    notes: tuple[str, ...] = ()
    off: str = ""


def libraries(*, stand_in: bool = False) -> tuple[Path, ...]:
    """Find every libcuda that this process or its children may call.

    Args:
        stand_in: Whether children load the mock CUDA driver, besides what this process has mapped or the loader knows.

    Raises:
        MachineError: There is no libcuda, or the mock CUDA driver cannot be built.

    """
    from accel_magic.probes.libraries import mapped_files, resolve

    # The file name has the driver's version: libcuda.so.570.86.10.
    found = [file for file in mapped_files(os.getpid()) if _FILE.fullmatch(file.name)]
    if stand_in:
        from accel_magic.devices.mock_cuda.library_build import library

        found.append(library().resolve())
    try:
        found.append(resolve(LIBRARY, os.getpid()))
    except ProbeError as error:
        if not found:
            raise MachineError(
                f"{LIBRARY} not found", why=error.why, fix=INSTALL[LIBRARY], code="cuda.no-driver"
            ) from None
    return tuple(dict.fromkeys(found))


def plan_for(files: Sequence[Path], shim: str = "") -> Plan:
    """Plan probes of all driver calls in these libraries.

    Args:
        files: The drivers.
        shim: Our library that wraps the driver in child processes; '' for none.

    Raises:
        MachineError: The kernel does not support these probes.
        ProbeError: There is no such file.

    """
    if broker_socket.needed():  # child processes have no breakpoints then
        from accel_magic.broker import broker_client

        request = TraceRequest((NAME,), max_events=MOST_CALLS, buffer_mib=BUFFER_MIB)
        return broker_client.plan(request, instead={LIBRARY: files})
    specs = [replace(spec, target=str(path)) for path in files for spec in parse_all([NAME])]
    if shim:
        specs += [replace(spec, target=shim) for spec in parse_all([f"cuda:{kind}" for kind in _WRAPPED])]
    return make_plan(TraceRequest(tuple(specs), scope="self", max_events=MOST_CALLS, buffer_mib=BUFFER_MIB))


class HostTrace:
    """The part of a GPU trace that records driver calls of this process and its children, if possible.

    `start`, `go`, `stop`; or `abort`. If it cannot record, all of these do nothing, and `off` is the reason.

    Args:
        mode: `on`, `off`, or `auto`: on a GPU, if this process may trace the kernel and there is a driver.

    """

    def __init__(self, mode: HostApiMode) -> None:
        self.off = ""
        self._mode = mode
        self._attached: Attached | None = None
        self._own = Stretches()
        self._shim = ""

    def start(self, memory: M, *, kind: DeviceName, simulated: bool) -> M:
        """Attach, if possible; call it within `uninterrupted`.

        Args:
            memory: How the trace accesses the device; these driver calls are not the user's.
            kind: The device's. OpenCL's calls are not recorded; on `cuda`, our library wraps the driver in children.
            simulated: Whether kernels run on the simulated device. Then the driver is a mock, and its calls are only
                recorded with `on`, because attaching costs more than most such cells.

        Returns:
            The object to use instead of `memory`: it marks the trace's own driver calls.

        Raises:
            MachineError: The mode is `on`, and driver calls cannot be traced here.
            ProbeError: The mode is `on`, and there is no driver to trace.

        """
        if kind == "opencl" and self._mode == "on":
            raise ProbeError(
                "calls of OpenCL are not recorded by a GPU trace",
                fix="trace them with the preset opencl: %%ktrace opencl",
                code="gpu.no-opencl-calls",
            )
        not_wanted = self._mode == "off" or kind == "opencl"
        self.off = NOT_WANTED if not_wanted else _SIMULATED if simulated and self._mode == "auto" else ""
        if self.off:
            return memory
        try:
            files = libraries(stand_in=simulated)
            if not broker_socket.needed():
                features.require_tracing()
            self._shim = _shim() if kind == "cuda" else ""
            attached = session.attach(plan_for(files, self._shim))
        except AccelMagicError as error:
            if self._mode == "on":
                raise
            self.off = _reason(error)
            return memory
        self._attached, self._own = attached, Stretches()
        return self._own.noting(memory)

    def go(self) -> int:
        """Start recording; return the time, CLOCK_MONOTONIC in ns."""
        if self._attached is None:
            return time.monotonic_ns()
        self._attached.go()
        return self._attached.start_ns

    def halt(self) -> None:
        """Stop recording."""
        if self._attached is not None:
            self._attached.halt()

    def stop(self, outcome: Outcome) -> HostCalls:
        """Detach and return the recorded calls. `outcome`: how the traced code ended."""
        attached, self._attached = self._attached, None
        if attached is None:
            return HostCalls(off=self.off)
        try:
            recording = attached.stop(outcome)
        except AccelMagicError as error:
            self.off = _reason(error)
            return HostCalls(notes=(f"the host calls are lost: {self.off}",), off=self.off)
        return _calls(recording, self._own, self._shim)

    def abort(self) -> None:
        """Detach; does nothing if nothing is attached."""
        attached, self._attached = self._attached, None
        if attached is not None:
            attached.abort()


def _shim() -> str:
    """Our library that wraps the driver in child processes; '' if it cannot be built, so that children have none."""
    from accel_magic.gpu.native.native_libraries import cuda_library

    try:
        return str(cuda_library().resolve())
    except MachineError:
        return ""


def _calls(recording: Recording, own: Stretches, shim: str) -> HostCalls:
    notes = []
    lost, hits = int(recording.lost.sum()), int(recording.hits.sum())
    untimed = int(recording.unpaired.sum())
    waiting = hits - int(recording.histograms.counts.sum()) - untimed
    if recording.limit_reached:
        notes.append(f"the first {recording.event_count:,} of {hits:,} host calls were recorded")
    if lost:
        why = "the ring buffer was not read" if recording.unread else "the ring buffer was full"
        notes.append(f"host calls lost because {why}: {lost:,}")
    if untimed:
        notes.append(f"host calls not timed because too many were in flight at once: {untimed:,}")
    if waiting > 0:
        notes.append(f"host calls that had not returned at the end of the trace: {waiting:,}")
    if recording.missed:
        notes.append(f"entries and returns of host calls that the kernel missed: {recording.missed:,}")
    from accel_magic.subsystems.host_api.calls import calls_of

    return HostCalls(calls_of(recording, own, shim), lost, tuple(notes))


def _reason(error: AccelMagicError) -> str:
    return f"{error.what}: {error.why}" if error.why else error.what
