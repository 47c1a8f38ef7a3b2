"""Whether OpenVINO works here, and the devices that it sees."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Self

from accel_magic.checks import Check, Use
from accel_magic.subsystems.npu.doctor import has_npu
from accel_magic.subsystems.openvino.preset import NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from types import TracebackType

DEADLINE_S: Final = 60.0
"""OpenVINO answers in a second or two; under the lab's emulation just importing it takes half a minute."""
_MARK: Final = "accel_magic:"
_ASK: Final = f"""
import json, openvino
core = openvino.Core()
def ask(device, name):
    try:
        return str(core.get_property(device, name))
    except Exception:
        return ""
found = [
    (device, ask(device, "FULL_DEVICE_NAME"), ask(device, "NPU_DRIVER_VERSION") if "NPU" in device else "")
    for device in core.available_devices
]
print("\\n{_MARK}" + json.dumps(found), flush=True)
"""


@contextmanager
def checks(root: Path) -> Iterator[Iterable[Check | Use]]:
    """Ask OpenVINO for its devices; the answer is waited for when the checks are iterated."""
    with AskedOpenVino() as requested:
        yield _answered(requested, expects_npu=has_npu(root))


def _answered(requested: AskedOpenVino, *, expects_npu: bool) -> Iterator[Check | Use]:
    check = requested.check(expects_npu=expects_npu)
    """The check, and how the preset works: its tasks are collected in this process, which needs nothing else."""
    yield check
    if requested.devices:
        detail = f"OpenVINO on {', '.join(requested.devices)}: models, layers, tokens"
        yield Use(f"%%ktrace {NAME}", "live", detail, check.fix)
    else:
        yield Use(f"%%ktrace {NAME}", "replay", f"OpenVINO: {check.detail}", check.fix)


class AskedOpenVino:
    """Asks OpenVINO for its devices in a child process, while the other checks run.

    This keeps its plugins, which cannot be unloaded, out of this process; one that crashes or hangs ends with the
    child. The context manager starts and ends the child.

    Args:
        deadline_s: Seconds to wait for the answer.

    Attributes:
        devices: The devices that it listed; () before it has answered.

    """

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self.devices: tuple[str, ...] = ()
        self._until = 0.0
        self._version: str | None = None
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Start the child, if OpenVINO is installed."""
        self._version = _version()
        self._until = time.monotonic() + self._deadline_s
        if self._version is not None:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", _ASK],  # -P: import nothing from the working folder
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()

    def check(self, *, expects_npu: bool) -> Check:
        """Wait for the answer; `expects_npu`: whether an NPU should be in it."""
        if self._child is None:
            return Check("OpenVINO", "info", "not installed", f"{sys.executable} -m pip install openvino")
        try:
            output, messages = self._child.communicate(timeout=max(self._until - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            return self._failed(f"it did not list its devices within {self._deadline_s:g} s")
        lines = [line for line in output.splitlines() if line.startswith(_MARK)]
        if not lines:
            status = self._child.returncode
            how = f"killed by signal {-status}" if status < 0 else (messages.strip().splitlines() or ["no message"])[-1]
            return self._failed(f"it failed to list its devices: {how}")
        found = json.loads(lines[-1].removeprefix(_MARK))
        self.devices = tuple(device for device, _, _ in found)
        shown = [f"{device} ({', '.join(_facts(name, driver)) or 'no name'})" for device, name, driver in found]
        detail = f"{self._version}: {', '.join(shown) or 'no device'}"
        if expects_npu and not any(device.startswith("NPU") for device, _, _ in found):
            fix = "install the Level Zero loader and the NPU's user-mode driver (checked above)"
            return Check("OpenVINO", "warning", f"{detail}; it does not see the NPU", fix)
        return Check("OpenVINO", "ok", detail)

    def _failed(self, why: str) -> Check:
        fix = f'run {sys.executable} -c "import openvino; print(openvino.Core().available_devices)" to see all output'
        return Check("OpenVINO", "warning", f"{self._version}: {why}", fix)


def _facts(name: str, driver: str) -> list[str]:
    return [*([name] if name else []), *([f"driver {driver}"] if driver else [])]


def _version() -> str | None:
    """Version of the installed package; None if there is none."""
    try:
        return importlib.metadata.version("openvino")
    except importlib.metadata.PackageNotFoundError:
        return None
