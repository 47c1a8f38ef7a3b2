"""Merge the kernel, native and Python stacks of one moment into one.

The interpreter's native frames are replaced by the Python frames that it runs. Native code called by the innermost
Python function is kept, without the interpreter's plumbing between the two.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from accel_magic.kernel.stacks.frames import Frame

_INTERPRETER: Final = re.compile(r"(lib)?(python|pypy)[\d.]*[tdm]{0,2}(\.so[\d.]*|\.exe)?")
_EVALUATION: Final = ("_PyEval_EvalFrameDefault", "_TAIL_CALL_")
"""Name prefixes of functions that run bytecode; compilers append `.cold`, `.lto_priv.0` and the like."""
_PLUMBING: Final = re.compile(
    r"(_?Py(Object|Function|CFunction|Vectorcall|Method)_\w*[Cc]all\w*|_?PyEval_(Vector|EvalCode)\w*"
    r"|(cfunction|method|methoddescr|wrapper)_\w*call\w*|vectorcall_\w+|object_vacall|slot_tp_\w+|type_call|wrap_\w+)"
    r"(\.\w+)*"
)
"""CPython functions between bytecode and the function that it calls."""


@lru_cache(maxsize=4096)
def is_interpreter(module: str) -> bool:
    """Whether a native frame's module is the Python interpreter, as program or library."""
    return _INTERPRETER.fullmatch(PurePath(module).name) is not None


def runs_bytecode(frame: Frame) -> bool:
    """Whether a native frame runs Python functions."""
    return frame.name.startswith(_EVALUATION)


def interleave(kernel: Sequence[Frame], user: Sequence[Frame], python: Sequence[Frame]) -> tuple[Frame, ...]:
    """Merge the three stacks of one moment. All stacks are outermost frame first.

    Args:
        kernel: Kernel frames; empty if the thread was in user code.
        user: Native frames; may be cut off where code without frame pointers hides its callers.
        python: Python frames; empty in threads without Python code.

    Returns:
        The Python frames, then native frames called by the innermost Python frame, then kernel frames. Without Python
        frames, all native frames, including the interpreter's.

    """
    return (*python, *(_called(user) if python else user), *kernel)


def _called(user: Sequence[Frame]) -> list[Frame]:
    """Native frames inward of the last that ran bytecode, without plumbing and unnamed interpreter frames."""
    first = max((at for at, frame in enumerate(user, 1) if runs_bytecode(frame)), default=0)
    own = {frame.module for frame in user[:first] if runs_bytecode(frame)}  # it may be embedded in another program
    return [
        frame
        for frame in user[first:]
        if not ((frame.module in own or is_interpreter(frame.module)) and _says_nothing(frame))
    ]


def _says_nothing(frame: Frame) -> bool:
    return "+0x" in frame.name or _PLUMBING.fullmatch(frame.name) is not None
