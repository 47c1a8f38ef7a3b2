"""The library with the static probe of steps: where its file is, or how to compile it."""

from __future__ import annotations

from functools import cache as remember
from pathlib import Path
from typing import Final

from accel_magic import c_programs, cache
from accel_magic.c_programs import CProgram

NAME: Final = "libaccel_magic_steps.so"
SHIPPED: Final = Path(__file__).with_name(NAME)
_SOURCE: Final = Path(__file__).with_name("steps.c")


@remember
def _mark() -> str:
    return c_programs.mark("steps", (_SOURCE,))


def program() -> CProgram:
    """Return how the library is built."""
    return CProgram(
        "steps",
        sources=(_SOURCE,),
        flags=("-fPIC", "-shared", "-fvisibility=hidden", "-Wl,--no-undefined", f'-DSOURCES="{_mark()}"'),
        suffix=f"/{NAME}",
    )


def library() -> Path:
    """Return the path of the library: the one in the package, else one compiled now.

    All processes of a user that use the same installation have the same file, so a tracer can attach to it before the
    traced process has loaded it.

    Raises:
        MachineError: The package has none, and there is no C compiler.

    """
    if c_programs.is_built_from(SHIPPED, _mark()):
        return SHIPPED
    return c_programs.compile_program(program(), cache.own("steps"))
