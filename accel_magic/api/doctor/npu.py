"""The libraries through which programs use an NPU: the Level Zero loader, the NPU's user-mode driver, OpenVINO."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final, Self

from accel_magic.api.doctor.report import Check
from accel_magic.errors import AccelMagicError
from accel_magic.probes import libraries as known_libraries
from accel_magic.probes.level_zero import LOADER

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from accel_magic.api.doctor.report import Status

DEADLINE_S: Final = 60.0
"""OpenVINO answers in a second or two; under the lab's emulation just importing it takes half a minute."""
_DRIVERS: Final = ("libze_intel_npu.so.1", "libze_intel_vpu.so.1")
"""The NPU's library; releases before 1.16 use the second name."""
_OTHER_DRIVERS: Final = "ZE_ENABLE_ALT_DRIVERS"
_INSTALL_DRIVER: Final = "install Intel's NPU driver: github.com/intel/linux-npu-driver/releases"
_VERSION: Final = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")
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


def libraries(*, has_npu: bool) -> tuple[Check, ...]:
    """Check the loader and the NPU's driver library; if there is an NPU, a missing one is a warning."""
    missing: Status = "warning" if has_npu else "info"
    loader = _find(LOADER)
    if loader is None:
        first = Check("Level Zero loader", missing, f"{LOADER} not found", "apt install libze1")
    else:
        first = Check("Level Zero loader", "ok", _at(loader))
    driver = next((found for name in _DRIVERS if (found := _find(name)) is not None), None)
    given = os.environ.get(_OTHER_DRIVERS, "")
    more = f"; the environment adds {_OTHER_DRIVERS}={given}" if given else ""
    if driver is None:
        detail = f"neither {' nor '.join(_DRIVERS)} found{more}"
        return first, Check("NPU user-mode driver", "info" if given else missing, detail, _INSTALL_DRIVER)
    return first, Check("NPU user-mode driver", "ok", f"{_at(driver)}{more}")


def _find(name: str) -> Path | None:
    try:
        return known_libraries.resolve(name, os.getpid())
    except AccelMagicError:
        return None


def _at(library: Path) -> str:
    found = _VERSION.search(library.name)
    return f"{found[1]} at {library}" if found else f"version unknown, at {library}"


class AskedOpenVino:
    """Asks OpenVINO for its devices in a child process, while the other checks run.

    This keeps its plugins, which cannot be unloaded, out of this process; one that crashes or hangs ends with the
    child. The context manager starts and ends the child.

    Args:
        deadline_s: Seconds to wait for the answer.

    """

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
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

    def check(self, *, has_npu: bool) -> Check:
        """Wait for the answer; `has_npu`: whether an NPU is expected in it."""
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
        shown = [f"{device} ({', '.join(_facts(name, driver)) or 'no name'})" for device, name, driver in found]
        detail = f"{self._version}: {', '.join(shown) or 'no device'}"
        if has_npu and not any(device.startswith("NPU") for device, _, _ in found):
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
