"""The format of iaprof's output, for the recognizer of files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from accel_magic.formats.recognise import FileFormat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel_magic.formats.recognise import Head

_FIRST_LINE: Final = re.compile(rb"(?:string|interval)\t[0-9]+\t[^\t\n]*\r?\n")


def _claims(head: Head) -> NDArray[np.bool_]:
    """Claim all lines of a file that begins as iaprof's output does."""
    return head.all() if _FIRST_LINE.match(head.data) else head.none()


FORMAT: Final = FileFormat(
    "iaprof output",
    "stacks",
    "accel_magic.subsystems.iaprof.parse:read",
    _claims,
    result="accel_magic.subsystems.iaprof.result:IaprofResult",
)
