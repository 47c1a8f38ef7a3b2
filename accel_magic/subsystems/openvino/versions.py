"""What versions of OpenVINO report, tried with each wheel from PyPI.

Up to 2025.3 only oneTBB's loops; 2025.4 also primitives; from 2026.0 on inferences and types of layers; layers by their
names from 2026.4 on (before, all had the name of the first).
"""

from __future__ import annotations

import re
from typing import Final

INFERENCES_SINCE: Final = (2026, 0)
LAYERS_SINCE: Final = (2026, 4)
MIXED_UP_UNTIL: Final = (2026, 4)
"""The newest version that was tried; see `primitive_names`."""


def names_layers(version: str) -> bool:
    """Whether a version of OpenVINO tells layers apart; True if the version is unknown."""
    return _parsed(version) >= LAYERS_SINCE


def mixes_up_primitives(version: str) -> bool:
    """Whether the oneDNN in a version of OpenVINO gives primitives the names of others; True if it is unknown."""
    return not version or _parsed(version) <= MIXED_UP_UNTIL


def what_lacks(version: str) -> str:
    """Note for the user about what a version of OpenVINO does not report; '' if nothing."""
    parsed = _parsed(version)
    newer = "OpenVINO 2026.4 and newer do: pip install -U openvino"
    short = ".".join(map(str, parsed))
    if parsed < INFERENCES_SINCE:
        return f"OpenVINO {short} does not report inferences and layers; {newer}"
    return "" if parsed >= LAYERS_SINCE else f"OpenVINO {short} does not tell layers apart; {newer}"


def of_library(path: str) -> str:
    """The version in the name of a file, `2026.4.1` for `libopenvino.so.2641`; '' for other files."""
    suffix = path.rpartition("/")[2].removeprefix("libopenvino.so.")
    if re.fullmatch(r"\d{4}", suffix):
        return f"20{suffix[:2]}.{suffix[2]}.{suffix[3]}"
    return suffix if re.fullmatch(r"20\d\d\.\d+(\.\d+)?", suffix) else ""


def _parsed(version: str) -> tuple[int, ...]:
    """Year and release of a version such as `2026.4.1-22982-e213a147257`; a late one if it is unknown."""
    numbers = version.partition("-")[0].split(".")[:2]
    return tuple(map(int, numbers)) if all(number.isdecimal() for number in numbers) else (9999, 0)
