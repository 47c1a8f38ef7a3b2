"""Which of the libraries of GPUs are here, so that calls to them can be traced."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from accel_magic.checks import Use
from accel_magic.errors import AccelMagicError
from accel_magic.probes import libraries as known_libraries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from accel_magic.probes.presets import Preset


def uses(presets: Iterable[Preset]) -> Iterator[Use]:
    """Yield a line for each preset whose library is here, and one for all others."""
    absent, libraries = [], []
    for preset in presets:
        for library in preset.install:
            try:
                path = known_libraries.resolve(library, os.getpid())
            except AccelMagicError:
                absent.append(preset.name)
                libraries.append(library)
            else:
                yield Use(f"%%ktrace {preset.name}", "live", f"calls to {path}", needs="libraries")
    if absent:
        detail = f"{', '.join(libraries)} not found; recordings of others can be played"
        yield Use(f"%%ktrace {', '.join(absent)}", "replay", detail, "install the GPU's driver, with its libraries")
