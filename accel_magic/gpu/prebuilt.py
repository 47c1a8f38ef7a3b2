"""The tools' objects, which come compiled: users of the tools need no clang. tools/build_gpu_tools makes them."""

from __future__ import annotations

import hashlib
import json
from typing import Final

from accel_magic.kernel.compiler import bpf_folder

LIST: Final = "prebuilt.json"
"""Beside the sources: by tool, the SHA-256 of what `source_hash` tells and of the object."""


def source_hash(tool: str) -> str:
    """Tell what a tool is compiled from: the SHA-256 of its C file and of our headers, with their names."""
    folder = bpf_folder() / "gpu"
    known = hashlib.sha256()
    for path in [folder / f"{tool}.bpf.c", *sorted(folder.rglob("*.h"))]:
        content = path.read_bytes()
        known.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return known.hexdigest()


def object_of(tool: str) -> bytes | None:
    """Give a tool's compiled object; None where it has to be compiled: a source was changed, or no object is there."""
    folder = bpf_folder() / "gpu"
    try:
        listed = json.loads((folder / LIST).read_text("utf-8"))[tool]
        compiled = (folder / f"{tool}.bpf.o").read_bytes()
    except (OSError, ValueError, KeyError):
        return None
    known = {"source": source_hash(tool), "object": hashlib.sha256(compiled).hexdigest()}
    return compiled if listed == known else None
