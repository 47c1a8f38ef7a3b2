"""One stack of three: what the kernel, native code and Python each say of the same moment.

The interpreter's own native frames say no more than the Python frames that it runs, so these take their place. What
native code the innermost Python function called stays, without the interpreter's plumbing between the two.
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
"""How the names of what runs bytecode begin; compilers append `.cold`, `.lto_priv.0` and the like."""
_PLUMBING: Final = re.compile(
    r"(_?Py(Object|Function|CFunction|Vectorcall|Method)_\w*[Cc]all\w*|_?PyEval_(Vector|EvalCode)\w*"
    r"|(cfunction|method|methoddescr|wrapper)_\w*call\w*|vectorcall_\w+|object_vacall|slot_tp_\w+|type_call|wrap_\w+)"
    r"(\.\w+)*"
)
"""Functions of CPython that pass a call on from bytecode to what is called."""


@lru_cache(maxsize=4096)
def is_interpreter(module: str) -> bool:
    """Whether a native frame's module is the Python interpreter, as a program or as a library."""
    return _INTERPRETER.fullmatch(PurePath(module).name) is not None


def runs_bytecode(frame: Frame) -> bool:
    """Whether a native frame is one that runs Python functions."""
    return frame.name.startswith(_EVALUATION)


def interleave(kernel: Sequence[Frame], user: Sequence[Frame], python: Sequence[Frame]) -> tuple[Frame, ...]:
    """Merge the three stacks of one moment; all of them, and what is returned, outermost frame first.

    Args:
        kernel: Of the kernel; empty where the thread was in user code.
        user: Of native code; may begin anywhere, where code without frame pointers hides what called it.
        python: Of Python; empty in threads that run none.

    Returns:
        The Python frames, then the native ones that the innermost of them called, then the kernel's. Without Python
        frames all native ones, the interpreter's too.

    """
    return (*python, *(_called(user) if python else user), *kernel)


def _called(user: Sequence[Frame]) -> list[Frame]:
    """Native frames inward of the last that ran bytecode, without plumbing and what has no name in the interpreter."""
    first = max((at for at, frame in enumerate(user, 1) if runs_bytecode(frame)), default=0)
    own = {frame.module for frame in user[:first] if runs_bytecode(frame)}  # it may be built into another program
    return [
        frame
        for frame in user[first:]
        if not ((frame.module in own or is_interpreter(frame.module)) and _says_nothing(frame))
    ]


def _says_nothing(frame: Frame) -> bool:
    return "+0x" in frame.name or _PLUMBING.fullmatch(frame.name) is not None
