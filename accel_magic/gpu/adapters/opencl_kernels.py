"""From `%load_ext` on, PyOpenCL's kernels keep their programs: a kernel of an earlier cell is traced from its program.

PyOpenCL caches the kernels of its array arithmetic and drops their programs, which Intel's runtime then forgets.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any, Final

from accel_magic.gpu.adapters.patching import on_import, replaced

_MODULE: Final = "pyopencl"
_ATTRIBUTE: Final = "_accel_magic_program"

_watch: Final = ExitStack()
_watched: Final = set[str]()


def begin() -> None:
    """Have kernels that are made from now on keep their programs. Can be called repeatedly."""
    if _MODULE in _watched:
        return
    _watched.add(_MODULE)
    if hasattr(sys.modules.get(_MODULE), "Program"):
        _keep(_MODULE)
    else:
        _watch.enter_context(on_import((_MODULE,), _keep))


def end() -> None:
    """Leave PyOpenCL alone."""
    _watch.close()
    _watched.clear()


def program_of(kernel: Any) -> Any:
    """The program that a kernel has kept; None if it was made before `begin`."""
    return getattr(kernel, _ATTRIBUTE, None)


def _keep(module: str) -> None:
    cl: Any = sys.modules[module]
    own = cl.Program.__getattr__

    def attribute(program: Any, name: str) -> Any:
        found = own(program, name)
        if isinstance(found, cl.Kernel):
            setattr(found, _ATTRIBUTE, program)
        return found

    _watch.enter_context(replaced(cl.Program, "__getattr__", attribute))
