"""The process that draws results for a lab's guest: `accel-magic lab draw FOLDER`, on a socket as standard input.

The guest is untrusted. Once everything is imported, the process confines itself as the compiler does: it reads the
files of Python and its packages, computes, and answers. Processes with the same folder are limited in number.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from accel_magic import channel
from accel_magic.errors import AccelMagicError
from accel_magic.kernel.bcc import sandbox
from accel_magic.recording import handover
from accel_magic.results.trace_result import TraceResult
from accel_magic.views.drawn_elsewhere import LARGEST
from accel_magic.views.figures import bokehjs, plotting

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST: Final = 4
"""Processes at once for one lab."""
_MODULES: Final = (
    *("accel_magic.views.trace_html", "accel_magic.views.trace_text", "accel_magic.views.figures.trace_figures"),
    *("pandas", "pyarrow"),
)
_MEMORY: Final = 3 << 30
_CPU_S: Final = 60
_IDLE_S: Final = 60.0


def serve(folder: str) -> None:
    """Answer on standard input until the other side is gone or does not ask for a minute.

    Args:
        folder: A folder of the lab, created if it is missing.

    """
    connection = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):  # they are the socket, too: a warning must not be taken for an answer
        os.dup2(nothing, standard)
    if not _has_place(folder):
        return
    memory = os.memfd_create("recording")
    _warm_up()
    connection.settimeout(_IDLE_S)
    _confine([sys.prefix, sys.base_prefix, *sys.path])
    with contextlib.suppress(OSError, ValueError):  # the guest is gone, or sent something else
        while True:
            request, _ = channel.receive_bytes(connection, largest=LARGEST)
            channel.send_bytes(connection, json.dumps(_drawn(request, memory)).encode())


def _has_place(folder: str) -> bool:
    """Take one of the places of a lab, until this process ends."""
    Path(folder).mkdir(mode=0o700, exist_ok=True)
    for number in range(MOST):
        place = os.open(Path(folder, str(number)), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(place)
        else:
            return True
    return False


def _warm_up() -> None:
    """Import what results need, and draw a figure: libraries start their threads."""
    for name in _MODULES:
        importlib.import_module(name)
    plot = plotting.new_plot("")
    plot.line([1, 2], [1, 2])
    bokehjs.figure_html(plot)


def _confine(libraries: Sequence[str]) -> None:
    """Give up everything but reading these folders and this package's, computing and answering."""
    package = Path(__file__).parents[1]
    readable = [folder for folder in dict.fromkeys([*libraries, str(package)]) if Path(folder).is_dir()]
    sandbox.limit(cpu_s=_CPU_S, memory=_MEMORY, written=LARGEST)
    sandbox.drop_capabilities(readable)
    sandbox.restrict_files(readable)
    sandbox.restrict_calls(sandbox.Needs(computes=True))


def _drawn(request: bytes, memory: int) -> dict[str, str]:
    """Draw a recording; nothing if it cannot be drawn."""
    os.ftruncate(memory, 0)
    os.pwrite(memory, request, 0)
    with os.fdopen(os.dup(memory), "rb") as file:
        file.seek(0)
        try:
            result = TraceResult(handover.read_from(file, LARGEST))
        except AccelMagicError:
            return {}
    with bokehjs.without_scripts():
        return result._repr_mimebundle_()
