"""Models whose files a process maps: those that C++ code reads, such as GenAI's pipelines and model servers.

OpenVINO maps the weights of a model in its own format, `model.bin`, as long as the model lives. `model.xml` beside it
has the model's name and those of its layers.
"""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accel_magic import foreign_files

WEIGHTS: Final = ".bin"
"""Ending of files with weights."""
_LARGEST: Final = 64 << 20
_MOST: Final = 64
_PATH: Final = 5
"""Column of a line of `/proc/PID/maps`."""
_NET: Final = re.compile(rb"<net\s[^>]*?\bname=\"([^\"]*)\"")
_LAYER: Final = re.compile(rb"<layer\s[^>]*?\bname=\"([^\"]*)\"[^>]*?\btype=\"([^\"]*)\"")


@dataclass(frozen=True)
class ModelFile:
    """A model in OpenVINO's format.

    Attributes:
        path: The file with its operations.
        name: Its name.
        layers: Names and types of its operations.
        weights_bytes: Size of its weights.

    """

    path: str
    name: str
    layers: tuple[tuple[str, str], ...]
    weights_bytes: int


def mapped_weights(maps: Path = Path("/proc/self/maps")) -> tuple[Path, ...]:
    """Return the files of weights that a process maps, at most 64."""
    found: dict[Path, None] = {}
    with contextlib.suppress(OSError), maps.open(encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            parts = line.rstrip("\n").split(maxsplit=_PATH)
            if len(parts) > _PATH and parts[_PATH].startswith("/") and parts[_PATH].endswith(WEIGHTS):
                found[Path(parts[_PATH])] = None
    return tuple(found)[:_MOST]


def read(weights: Path) -> ModelFile | None:
    """Read what belongs to a file of weights; None if that is no model in OpenVINO's format."""
    described = weights.with_suffix(".xml")
    with contextlib.suppress(OSError, ValueError), foreign_files.opened(described) as file:
        if os.fstat(file.fileno()).st_size <= _LARGEST:
            content = file.read(_LARGEST)
            name = _NET.search(content)
            if name is not None:
                layers = tuple((_text(found), _text(kind)) for found, kind in _LAYER.findall(content))
                return ModelFile(str(described), _text(name[1]), layers, weights.stat().st_size)
    return None


def _text(name: bytes) -> str:
    """A name, without what XML needs for some characters."""
    text = name.decode("utf-8", "replace")
    for escaped, plain in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&")):
        text = text.replace(escaped, plain)
    return text
