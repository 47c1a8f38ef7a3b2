"""What programs print on a device: records of the print ring as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from accel_magic.gpu.formats import compiled
from accel_magic.gpu.maps import PRINT_BYTES
from accel_magic.gpu.rings import drain_shared, records

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ARGUMENTS = 24  # bytes before the flag whether it is a format, the length and the text
_TEXT = 32


def printed(raw: NDArray[np.uint8]) -> list[str]:
    """Take out the lines that programs have printed since the last time; like `print_records`, the text alone."""
    return list(print_records(raw)["text"])


def print_records(raw: NDArray[np.uint8]) -> pd.DataFrame:
    """Take out what programs have printed since the last time.

    Args:
        raw: (bytes,) uint8: the print ring, live. Its reading position moves.

    Returns:
        One row per call, in order: `thread`, `launch`, `text` without the newline at its end.

    """
    return print_frame(drain_shared(raw, PRINT_BYTES))


def print_frame(data: NDArray[np.uint8]) -> pd.DataFrame:
    """Decode what was taken out of the print ring, (bytes,) uint8; a frame as of `print_records`."""
    frame = records(data)
    texts = [_text(data) for data in frame["raw"]]
    return pd.DataFrame(
        {
            "thread": frame["thread"].astype(np.uint64),
            "launch": frame["launch"].astype(np.uint64),
            "text": pd.Series(texts, frame.index, dtype=object),
        }
    )


def _text(data: bytes) -> str:
    arguments = tuple(int(each) for each in np.frombuffer(data, "<u8", 3))
    is_format, length = (int(each) for each in np.frombuffer(data, "<u4", 2, _ARGUMENTS))
    text = data[_TEXT : _TEXT + length].split(b"\0")[0].decode("utf-8", "replace")
    return (compiled(text).text(arguments) if is_format else text).removesuffix("\n")
