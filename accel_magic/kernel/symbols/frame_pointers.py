"""Whether native stacks can be unwound: the kernel follows frame pointers from frame to frame."""

from __future__ import annotations

import os
import sysconfig
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import foreign_files
from accel_magic.errors import ProbeError
from accel_magic.kernel.stacks.interleave import is_interpreter
from accel_magic.kernel.stacks.stack_table import USER
from accel_magic.kernel.symbols import functions, mappings
from accel_magic.kernel.symbols.lookup import ROOTS
from accel_magic.probes.program_files import identity
from accel_magic.quantities import share_text

if TYPE_CHECKING:
    from accel_magic.kernel.stacks.stack_table import StackTable

_OPTION: Final = "-fno-omit-frame-pointer"
_SET: Final = np.frombuffer(b"\x48\x89\xe5", np.uint8)
"""`mov %rsp, %rbp`, which is at the start of every function with a frame pointer."""
_BEGINNING: Final = 32
_LAST_OFFSET: Final = 1 << 62
_SMALLEST: Final = 64
_LOOKED_AT: Final = 4000
_MOST_FUNCTIONS: Final = 0.5
_FEW: Final = 0.05
_NAMED: Final = 3


@cache
def frame_pointers() -> tuple[bool, str]:
    """Whether the running interpreter keeps frame pointers, and the evidence in a sentence.

    Its machine code is inspected; the build flags are only part of the explanation.
    """
    own = mappings.read(os.getpid())
    paths = [path for at in range(len(own.names)) if (path := own.file(at))] if own else []
    interpreters = [path for path in dict.fromkeys(paths) if is_interpreter(str(path))]
    shares = [(path, share) for path in interpreters if (share := kept_share(path)) is not None]
    if not shares:
        return False, "the interpreter's code could not be inspected"
    path, share = max(shares, key=lambda found: len(functions.of_file(found[0]).starts))
    flags = " ".join(str(sysconfig.get_config_var(name) or "") for name in ("CFLAGS", "PY_CORE_CFLAGS"))
    built = f"{'with' if _OPTION in flags else 'without'} {_OPTION}"
    kept = share > _MOST_FUNCTIONS
    how = "keep" if kept else "do not keep"
    return (
        kept,
        f"{path.name} was built {built}, and most of its functions {how} frame pointers ({share_text(share)} do)",
    )


def kept_share(path: Path) -> float | None:
    """Share of a file's functions that keep frame pointers, from 0 to 1; None if unknown."""
    try:
        return _kept_share(*identity(path))
    except ProbeError:
        return None


@cache
def _kept_share(path: str, *_identity: int) -> float | None:
    known = functions.of_file(Path(path))
    beginnings = known.beginnings if len(known.beginnings) else known.starts
    large = beginnings[:-1][np.diff(beginnings) >= _SMALLEST]
    offsets, loaded = known.segments.file_offsets(large)
    offsets = offsets[loaded][:: max(len(large) // _LOOKED_AT, 1)]
    try:
        # Not mapped: its owner may truncate it at any time, and access beyond its end would kill the process.
        with foreign_files.opened(Path(path), follow=mappings.is_link(Path(path))) as file:
            read = [os.pread(file.fileno(), _BEGINNING, offset) for offset in offsets.tolist() if offset < _LAST_OFFSET]
    except OSError:
        return None
    whole = [beginning for beginning in read if len(beginning) == _BEGINNING]
    if not whole:
        return None
    code = np.frombuffer(b"".join(whole), np.uint8).reshape(-1, _BEGINNING)
    windows = np.lib.stride_tricks.sliding_window_view(code, len(_SET), axis=1)
    return float((windows == _SET).all(axis=2).any(axis=1).mean())


def _keeps(path: Path) -> bool:
    share = kept_share(path)
    return share is None or share > _MOST_FUNCTIONS


def why_short(table: StackTable) -> str:
    """Explain why native stacks end before the start of their thread; '' if they do not."""
    rows = np.flatnonzero((table.kinds == USER) & (np.diff(table.starts) > 0))
    outermost = [table.frames[table.frames_of[table.starts[row]]] for row in rows.tolist()]
    short = Counter(frame.module for frame in outermost if frame.module and frame.name not in ROOTS)
    if sum(short.values()) <= _FEW * max(len(rows), 1):
        return ""
    blamed = [module for module, _ in short.most_common() if not _keeps(Path(module))]
    names = [Path(module).name for module in blamed]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    cause = (
        f"{', '.join(names[:_NAMED])}{more} {'were' if len(names) > 1 else 'was'} built without frame pointers"
        if names
        else "some of the code does not keep frame pointers"
    )
    return f"{sum(short.values())} of {len(rows)} native stacks do not reach the start of their thread: {cause}"
