"""What `%load_ext accel_magic` registers and `%unload_ext` removes."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from traitlets import TraitError

from accel_magic.analysis.flame import stacks as cells
from accel_magic.errors import MachineError, ProbeError
from accel_magic.gpu.tools import TOOLS
from accel_magic.itt import collector
from accel_magic.magics import flame as flame_options
from accel_magic.magics import gputrace as gpu_options
from accel_magic.magics.flame import Flame, cells_of
from accel_magic.magics.gpupolicy import GpuPolicy
from accel_magic.magics.gputrace import GpuTrace
from accel_magic.magics.ktrace import OPTION_NAMES, KTrace
from accel_magic.magics.on import clients
from accel_magic.magics.traced import TracedCells, in_kernel
from accel_magic.views import preload as ahead

_ATTRIBUTE = "_accel_magic_magics"
_MAGICS = (KTrace, GpuTrace, Flame)
"""Those that trace a cell."""
_CELL, _LINE = (
    ("ktrace", "gputrace", "flame", "gpupolicy"),
    ("ktrace", "gputrace", "flame", "gpupolicy", "accel_doctor"),
)


def load(shell: Any) -> None:
    """Register the magics, their defaults under `%config KTrace`, `GpuTrace` and `Flame`, and tab completion.

    Libraries that are loaded from now on report their ITT tasks to this process.

    Raises:
        ProbeError: A default in IPython's configuration is invalid; it has already been dropped.

    """
    made = [_made(kind, shell) for kind in _MAGICS]
    shell.register_magics(GpuPolicy(shell, next(one for one in made if isinstance(one, GpuTrace))))
    for magics in made:
        shell.register_magics(magics)
        if magics not in shell.configurables:
            shell.configurables.append(magics)
    setattr(shell, _ATTRIBUTE, made)
    cells.use(cells_of(shell))
    for pattern, completer in _COMPLETERS.items():
        shell.set_hook("complete_command", completer, re_key=pattern)
    with suppress(MachineError, OSError):  # a trace of ITT tasks reports it
        collector.install()
    if in_kernel(shell):  # a terminal shows text only
        ahead.start()


def _made(kind: type[TracedCells], shell: Any) -> TracedCells:
    try:
        return kind(shell=shell, parent=shell)
    except TraitError as error:
        # IPython keeps a value that %config rejected, and every later load would fail on it.
        name = kind.__name__
        shell.config.pop(name, None)
        raise ProbeError(
            str(error),
            why=f"it was set with %config {name} or in the profile's configuration",
            fix=f"the {name} defaults of this session have been dropped: run %load_ext accel_magic again",
            code="option.bad-default",
        ) from None


def unload(shell: Any) -> None:
    """Remove the magics and end the helper processes."""
    from accel_magic.kernel.bcc import compiler
    from accel_magic.recording.reader import client as reader

    for magics in getattr(shell, _ATTRIBUTE, ()):
        if magics in shell.configurables:
            shell.configurables.remove(magics)
    for kind, names in (("cell", _CELL), ("line", _LINE)):
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
    for pattern in _COMPLETERS:
        shell.strdispatchers["complete_command"].regexs.pop(re.compile(pattern), None)
    cells.use(dict)
    compiler.stop()
    reader.end()


def complete_gpu(_: Any, event: Any) -> list[str]:
    """Complete the last word of a `%%gputrace` line: an option, a tool, or a probe after FUNCTION=."""
    word = re.split(r"\s", event.text_until_cursor)[-1]
    function, bound, probe = word.partition("=")
    if bound and function.isidentifier():
        return _probes(probe, event)
    return [name for name in (gpu_options.OPTION_NAMES if word.startswith("-") else TOOLS) if name.startswith(word)]


def complete(shell: Any, event: Any) -> list[str]:
    """Complete the last word of a `%%ktrace` line: an option, the client after `--on`, or a probe."""
    *_, before, word = re.split(r"\s", event.text_until_cursor)
    if before == "--on":
        return [name for name in clients(shell.user_ns) if name.startswith(word)]
    if word.startswith("-"):
        return [name for name in OPTION_NAMES if name.startswith(word)]
    return _probes(word, event)


def complete_flame(_: Any, event: Any) -> list[str]:
    """Complete the last word of a `%%flame` line: an option, or a probe."""
    word = re.split(r"\s", event.text_until_cursor)[-1]
    if word.startswith("-"):
        return [name for name in flame_options.OPTION_NAMES if name.startswith(word)]
    return _probes(word, event)


def _probes(word: str, event: Any) -> list[str]:
    from accel_magic.probes.completion import complete as complete_probe

    answers = complete_probe(word)
    # IPython completes after the last delimiter of the word only, and ':' is one.
    kept = len(word) - len(event.symbol)
    return [answer[kept:] for answer in answers]


_COMPLETERS = {"%?%ktrace": complete, "%?%gputrace": complete_gpu, "%?%flame": complete_flame}
