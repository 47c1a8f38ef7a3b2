"""The NPU lab: Debian's unmodified intel_vpu driver on an emulated NPU, in a small virtual machine.

`with Lab(Settings(kernel="7.2")) as lab` boots one, `lab.run` runs commands in it, and
`accel_magic.trace_lab` traces them. `npu` runs jobs on the NPU from inside the lab. Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from accel_magic.lab.vm.connection import Completed, GuestProcess
    from accel_magic.lab.vm.lab import Lab
    from accel_magic.lab.vm.lab_settings import Settings

__all__ = ["CLASS_FOLDER", "Completed", "GuestProcess", "Lab", "Settings"]

CLASS_FOLDER: Final = "ACCEL_MAGIC_WORKSHOP"
"""Environment variable: the folder with the progress of a class, which the Jupyter kernels of labs share."""

_MODULES = {
    "Completed": "vm.connection",
    "GuestProcess": "vm.connection",
    "Lab": "vm.lab",
    "Settings": "vm.lab_settings",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
