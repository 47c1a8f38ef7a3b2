"""What `%load_ext accel_magic` registers and `%unload_ext` removes."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from traitlets import TraitError

from accel_magic import subsystems
from accel_magic.analysis.flame import cell_names
from accel_magic.errors import MachineError, ProbeError
from accel_magic.gpu.adapters import opencl_kernels
from accel_magic.itt import collector
from accel_magic.magics import flame_magic, gputrace_magic, ktrace_magic
from accel_magic.magics.flame_magic import Flame, cells_of
from accel_magic.magics.gpupolicy_magic import GpuPolicy
from accel_magic.magics.gputrace_magic import GpuTrace
from accel_magic.magics.ktrace_magic import KTrace
from accel_magic.magics.magic_line import option_names
from accel_magic.magics.on_cluster import clients
from accel_magic.magics.traced import TracedCells, in_kernel
from accel_magic.views import display_preload

if TYPE_CHECKING:
    from accel_magic.magics.magic_line import MagicParser

_ATTRIBUTE = "_accel_magic_magics"
_MAGICS = (KTrace, GpuTrace, Flame)
"""Those that trace a cell."""
_CELL, _LINE = (
    ("ktrace", "gputrace", "flame", "gpupolicy"),
    ("ktrace", "gputrace", "flame", "gpupolicy", "accel_doctor"),
)


_ALONE = re.compile(rf"\s*%%(?:{'|'.join(_CELL)})(?:\s|$)")


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
    cell_names.use(cells_of(shell))
    for pattern, completer in _COMPLETERS.items():
        shell.set_hook("complete_command", completer, re_key=pattern)
    shell.events.register("post_run_cell", _advise)
    shell.input_transformers_cleanup.append(_as_line)
    with suppress(MachineError, OSError):  # a trace of ITT tasks reports it
        collector.install()
    opencl_kernels.begin()
    for subsystem in subsystems.registered().values():
        subsystem.watch()
    if in_kernel(shell):  # a terminal shows text only
        display_preload.start(subsystems.registered)


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


def _advise(result: Any) -> None:
    """After a cell that failed where no magic was in charge, print what would work."""
    if result.error_in_exec is None:
        return
    from accel_magic.gpu.adapters.numba_kernels import advice

    if text := advice(result.error_in_exec):
        print(text, file=sys.stderr)


def _as_line(lines: list[str]) -> list[str]:
    """Make a line magic of a cell that has only the line of one of our magics: IPython rejects it without a body.

    `%%ktrace --help` works then, and so do `--dry-run` and `--replay`.
    """
    written = [place for place, line in enumerate(lines) if line.strip()]
    if len(written) != 1 or not _ALONE.match(lines[written[0]]):
        return lines
    return [line.lstrip()[1:] if place == written[0] else line for place, line in enumerate(lines)]


def unload(shell: Any) -> None:
    """Remove the magics and end the helper processes."""
    from accel_magic.kernel.bcc import compiler
    from accel_magic.recording.reader import reader_client

    for magics in getattr(shell, _ATTRIBUTE, ()):
        if magics in shell.configurables:
            shell.configurables.remove(magics)
    for kind, names in (("cell", _CELL), ("line", _LINE)):
        for name in names:
            shell.magics_manager.magics[kind].pop(name, None)
    for pattern in _COMPLETERS:
        shell.strdispatchers["complete_command"].regexs.pop(re.compile(pattern), None)
    with suppress(ValueError):
        shell.events.unregister("post_run_cell", _advise)
    with suppress(ValueError):
        shell.input_transformers_cleanup.remove(_as_line)
    cell_names.use(dict)
    opencl_kernels.end()
    for subsystem in subsystems.registered().values():
        subsystem.unwatch()
    compiler.stop()
    reader_client.end()


def complete_gpu(shell: Any, event: Any) -> list[str]:
    """Complete the last word of a `%%gputrace` line: an option, its client, a tool, or a probe after FUNCTION=."""
    before, word = _last_words(event)
    function, bound, probe = word.partition("=")
    if bound and function.isidentifier():
        return _probes(probe, event)
    names = _names(shell, before, word, gputrace_magic.parser())
    from accel_magic.gpu_tools import TOOLS  # imports pandas

    return [name for name in TOOLS if name.startswith(word)] if names is None else names


def complete(shell: Any, event: Any) -> list[str]:
    """Complete the last word of a `%%ktrace` line: an option, the client after `--on`, or a probe."""
    before, word = _last_words(event)
    names = _names(shell, before, word, ktrace_magic.parser())
    return _probes(word, event) if names is None else names


def complete_flame(shell: Any, event: Any) -> list[str]:
    """Complete the last word of a `%%flame` line: an option, the client after `--on`, or a probe."""
    before, word = _last_words(event)
    names = _names(shell, before, word, flame_magic.parser())
    return _probes(word, event) if names is None else names


def _last_words(event: Any) -> tuple[str, str]:
    *_, before, word = ["", *re.split(r"\s", event.text_until_cursor)]
    return before, word


def _names(shell: Any, before: str, word: str, parser: MagicParser) -> list[str] | None:
    """Return the clients or options that the word may be; None if it is neither."""
    if before != "--on" and not word.startswith("-"):
        return None
    known = clients(shell.user_ns) if before == "--on" else option_names(parser)
    return [name for name in known if name.startswith(word)]


def _probes(word: str, event: Any) -> list[str]:
    from accel_magic.probes.completion import complete as complete_probe

    answers = complete_probe(word)
    # IPython completes after the last delimiter of the word only, and ':' is one.
    kept = len(word) - len(event.symbol)
    return [answer[kept:] for answer in answers]


_COMPLETERS = {"%?%ktrace": complete, "%?%gputrace": complete_gpu, "%?%flame": complete_flame}
