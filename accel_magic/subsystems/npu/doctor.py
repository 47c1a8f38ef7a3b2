"""The libraries through which programs use an NPU: the Level Zero loader, and the NPU's user-mode driver."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from accel_magic.checks import Check
from accel_magic.errors import AccelMagicError
from accel_magic.kernel import pci
from accel_magic.npu_interface.level_zero import LOADER
from accel_magic.probes import libraries as known_libraries
from accel_magic.subsystems.npu.driver import DRIVER

if TYPE_CHECKING:
    from pathlib import Path

    from accel_magic.checks import Status

_DRIVERS: Final = ("libze_intel_npu.so.1", "libze_intel_vpu.so.1")
"""The NPU's library; releases before 1.16 use the second name."""
_OTHER_DRIVERS: Final = "ZE_ENABLE_ALT_DRIVERS"
_INSTALL_DRIVER: Final = "install Intel's NPU driver: github.com/intel/linux-npu-driver/releases"
_VERSION: Final = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")


def has_npu(root: Path) -> bool:
    """Whether there is an Intel NPU with its driver below `root`."""
    return any(device.driver == DRIVER for device in pci.devices(root))


def libraries(*, expects_npu: bool) -> tuple[Check, ...]:
    """Check the loader and the NPU's driver library; if there is an NPU, a missing one is a warning."""
    missing: Status = "warning" if expects_npu else "info"
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
