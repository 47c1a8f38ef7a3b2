"""Programs that Python code starts while functions are patched: they begin without patches."""

from __future__ import annotations

import os
import shlex
import sys
from functools import cache as remember
from pathlib import Path
from typing import Any, Final

_EVENTS: Final = frozenset(("subprocess.Popen", "os.posix_spawn", "os.spawn", "os.exec", "os.system"))
_MOST_NAMED: Final = 3
_watches: list[list[str]] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watches and event in _EVENTS:
        name = _name(event, arguments)
        for started in _watches:
            started.append(name)


def _name(event: str, arguments: tuple[Any, ...]) -> str:
    """Name of the program of an audit event."""
    place = arguments[1] if event == "os.spawn" else arguments[0]
    if event == "subprocess.Popen" and not place:
        words = arguments[1]
        place = words if isinstance(words, str | bytes | os.PathLike) else words[0]
    text = os.fsdecode(place)
    return (text.split() or [""])[0] if event == "os.system" else text


@remember
def _install() -> None:
    """Have Python report programs that are started; such a hook stays for as long as the process."""
    sys.addaudithook(_hook)


class StartedPrograms:
    """Names of the programs that are started from now on, until `stop`."""

    def __init__(self) -> None:
        _install()
        self._names: list[str] = []
        _watches.append(self._names)

    def stop(self) -> None:
        """Stop listening; can be called repeatedly."""
        _watches[:] = [other for other in _watches if other is not self._names]

    @property
    def places(self) -> tuple[str, ...]:
        """Their names or paths, as they were started."""
        return tuple(filter(None, self._names))

    def notes(self) -> tuple[str, ...]:
        """Note for the user, if there were any."""
        names = list(dict.fromkeys(shlex.quote(Path(name).name) for name in self.places))
        if not names:
            return ()
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        note = (
            "patched functions count in this process and its forks only, and not in programs that were started "
            f"meanwhile ({', '.join(names[:_MOST_NAMED])}{more}): --children or --uprobes=kernel counts in these, too"
        )
        return (note,)
