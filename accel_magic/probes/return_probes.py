"""Programs that do not survive return probes, in their own calls: Go, code that switches stacks, exceptions, panics.

While a call is measured, the kernel has replaced its return address on the stack, and remembers the right one by
thread and stack pointer. Code that reads its return addresses finds the wrong one; code that returns in another order,
on another stack or in another thread makes the kernel end the process.
"""

from __future__ import annotations

import shlex
import signal
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic.demangle import MANGLED, is_rust
from accel_magic.errors import ProbeError
from accel_magic.probes.plan import ProbePoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from accel_magic.probes.plan import ProbeSpec

_GO_SECTIONS: Final = (".note.go.buildid", ".gopclntab", ".data.rel.ro.gopclntab")
_SWITCHING: Final = ("makecontext", "swapcontext", "setcontext", "make_fcontext", "jump_fcontext", "ontop_fcontext")
"""Functions that change the stack: of the C library, and of Boost.Context."""
_GREENLET: Final = "_greenlet."
"""How the file name of greenlet's extension module begins; gevent and eventlet use it."""
_ENDS: Final = "a measured call during which the stack is switched would end the process; probes at the entry are safe"
_PASSES: Final = "passes through would end the process"
_MOST_NAMED: Final = 3
_CERTAINTY: Final = {
    "SIGILL": "probably",  # what the kernel sends when a call returns that it does not know
    "SIGSEGV": "possibly",
    "SIGBUS": "possibly",
    "SIGABRT": "possibly",  # what the C++ library raises for an exception without a handler
}
"""How likely return probes are the cause of each signal that ends a process."""


@dataclass(frozen=True)
class _Code:
    """What a file's code is: whether it has Go code, and the functions that it calls to switch stacks."""

    go: bool
    switching: tuple[str, ...]


def at_return(place: ProbeSpec | ProbePoint) -> bool:
    """Whether a probe in a program or library needs a return probe of the kernel."""
    if isinstance(place, ProbePoint) and place.way == "patched":
        return False
    return place.kind == "uretprobe" or (place.kind == "uprobe" and place.latency)


def is_risk(note: str) -> bool:
    """Whether a note is about what return probes do to a program."""
    return note.endswith((_ENDS, _PASSES))


def at_entry(spec: ProbeSpec) -> ProbeSpec:
    """The probe at the entry of the same functions."""
    return replace(spec, kind="uprobe", latency=False, text=f"uprobe:{spec.target}:{spec.name}")


def has_go(path: Path) -> bool:
    """Whether a program or library has Go code. Raises ProbeError."""
    return _code_of(path).go


def refused(spec: ProbeSpec, path: Path) -> ProbeError:
    """Make the error for a return probe in Go code."""
    return ProbeError(
        f"{spec.text!r} would end the program: {path} has Go code",
        why="a return probe replaces return addresses on the stack, and Go's runtime stops when it finds one of them "
        "(`unexpected return pc`)",
        fix=f"write {shlex.quote(at_entry(spec).text)}",
        code="probe.go-return",
    )


def about_file(spec: ProbeSpec, path: Path) -> list[str]:
    """Notes on the code of a probed file. Raises ProbeError."""
    code = _code_of(path)
    notes = []
    if code.go and spec.kind == "uprobe":
        notes.append(
            f"{path} has Go code: its functions can have more hits than calls, because a function begins again after "
            "its stack had to grow"
        )
    if code.switching and at_return(spec):
        notes.append(f"{path} switches stacks ({', '.join(code.switching)}): {_ENDS}")
    return notes


def about_exceptions(points: Iterable[ProbePoint]) -> list[str]:
    """Warn of return probes on C++ and Rust functions: unwinding does not find the handler behind a return probe."""
    measured = [point.function for point in points if at_return(point) and point.function.startswith(MANGLED)]
    if not measured:
        return []
    rust = all(map(is_rust, measured))
    language, what = ("Rust", "a panic") if rust else ("C++", "an exception")
    which = f"a {language} function is" if len(measured) == 1 else f"{len(measured):,} {language} functions are"
    return [f"{which} measured until the return: {what} that {_PASSES}"]


def about_loaded(points: Iterable[ProbePoint], loaded: Iterable[str]) -> list[str]:
    """Warn of greenlets, which move the stack of every function below Python code.

    Args:
        points: What is traced.
        loaded: Names or paths of the files that the traced processes have loaded.

    """
    greenlet = any(Path(name).name.startswith(_GREENLET) for name in loaded)
    if not greenlet or not any(map(at_return, points)):
        return []
    return [f"a traced process has loaded greenlet, which switches stacks: {_ENDS}"]


def about_ending(points: Sequence[ProbePoint], status: int) -> list[str]:
    """Name the return probes as the cause why a traced command was ended by a signal, as far as they can be.

    Args:
        points: What was traced.
        status: Exit status of the command, or minus a signal's number; a shell reports its child's as 128 plus that.

    """
    words = [shlex.quote(f"uprobe:{point.target}:{point.function}") for point in points if at_return(point)]
    name = _signal(-status if status < 0 else status - 128)
    if not words or name not in _CERTAINTY:
        return []
    more = f" and {len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    cause = (
        f"the command was ended by {name}, {_CERTAINTY[name]} because of this trace: calls "
        "that are measured until their return do not survive a switch to another stack (fibers, coroutines, greenlets) "
        f"or an exception or panic; probes at the entry are safe: {', '.join(words[:_MOST_NAMED])}{more}"
    )
    return [cause]


def _signal(number: int) -> str:
    return signal.Signals(number).name if number in signal.valid_signals() else ""


def _code_of(path: Path) -> _Code:
    from accel_magic.probes.program_files import identity  # imports numpy

    return _code(*identity(path))


@lru_cache(maxsize=256)
def _code(path: str, *_identity: int) -> _Code:
    from accel_magic.probes import file_functions, program_files

    with program_files.opened(Path(path)) as file:
        imported, exported = file.dynamic_names(_SWITCHING)
        go = any(file.named(name) is not None for name in _GO_SECTIONS)
    # A program that is linked statically has them itself; a library that gives them to others does not call them.
    own = {name for name in _SWITCHING if file_functions.functions(Path(path)).match(name)} - exported
    return _Code(go, tuple(name for name in _SWITCHING if name in imported | own))
