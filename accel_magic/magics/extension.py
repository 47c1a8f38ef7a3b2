"""What `%load_ext accel_magic` registers, and `%unload_ext` takes back."""

from __future__ import annotations

import re
from typing import Any

from traitlets import TraitError

from accel_magic.errors import ProbeError
from accel_magic.magics.ktrace import KTrace
from accel_magic.magics.options import OPTION_NAMES
from accel_magic.magics.traced import in_kernel
from accel_magic.views import ahead

_ATTRIBUTE = "_accel_magic_ktrace"


def load(shell: Any) -> None:
    """Register the magics, their defaults under `%config KTrace`, and tab completion.

    Raises:
        ProbeError: A default in IPython's configuration is impossible; it has been dropped by then.

    """
    try:
        magics = KTrace(shell=shell, parent=shell)
    except TraitError as error:
        # IPython keeps what %config refused, and would meet it again at every load.
        shell.config.pop("KTrace", None)
        raise ProbeError(
            str(error),
            why="it was set with %config KTrace or in the profile's configuration",
            fix="the KTrace defaults of this session have been dropped: run %load_ext accel_magic again",
        ) from None
    shell.register_magics(magics)
    if magics not in shell.configurables:
        shell.configurables.append(magics)
    setattr(shell, _ATTRIBUTE, magics)
    shell.set_hook("complete_command", complete, re_key="%?%ktrace")
    if in_kernel(shell):  # a terminal shows text only
        ahead.start()


def unload(shell: Any) -> None:
    """Take the magics away and end the helper processes."""
    from accel_magic.kernel import compiler
    from accel_magic.traces import reader

    magics = getattr(shell, _ATTRIBUTE, None)
    if magics in shell.configurables:
        shell.configurables.remove(magics)
    shell.magics_manager.magics["cell"].pop("ktrace", None)
    shell.magics_manager.magics["line"].pop("accel_doctor", None)
    shell.magics_manager.magics["line"].pop("ktrace", None)
    shell.strdispatchers["complete_command"].regexs.pop(re.compile("%?%ktrace"), None)
    compiler.stop()
    reader.end()


def complete(_: Any, event: Any) -> list[str]:
    """Complete the last word of a `%%ktrace` line: an option, or a probe."""
    word = re.split(r"\s", event.text_until_cursor)[-1]
    if word.startswith("-"):
        return [name for name in OPTION_NAMES if name.startswith(word)]
    from accel_magic.probes.completion import complete as complete_probe

    answers = complete_probe(word)
    # IPython completes after the last delimiter of the word only, and ':' is one.
    kept = len(word) - len(event.symbol)
    return [answer[kept:] for answer in answers]
