"""Which kind of profile a file is, told by how it begins, and what reads each kind."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from accel_magic.profiles import pprof

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from accel_magic.profiles.iaprof.model import IaprofProfile
    from accel_magic.profiles.model import Profile

HEAD: Final = 1 << 18
_MOSTLY: Final = 0.9
_PARQUET: Final = b"PAR1"
_FOLDED: Final = re.compile(rb"(?!@|\s)[^\n]*\S[ \t]+[0-9]{1,19}[ \t]*\r?")
_PERF_SAMPLE: Final = re.compile(rb"[ \t]*\S.{0,79}?[ \t][0-9]{1,9}(?:/[0-9]{1,9})?[ \t].*:")
_PERF_FRAME: Final = re.compile(rb"[ \t]+[0-9a-f]{1,16} .*\([^()]*(?:\(deleted\))?\)[ \t\r]*")
_SPEEDSCOPE: Final = re.compile(rb'speedscope\.app/file-format-schema|"shared"\s*:\s*\{\s*"frames"')
_CHROME: Final = re.compile(rb'"callFrame"\s*:|"stackFrames"\s*:|"traceEvents"\s*:|"timeDeltas"\s*:')
_IAPROF: Final = re.compile(rb"(?:string|interval)\t[0-9]+\t[^\t\n]*\r?\n")


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes:
        name: In words.
        suffixes: Names of files that are of this kind whatever they hold, so that errors are about this kind.
        recognised: Tells it by the first bytes.
        reader: What reads it, as `module:function` of a path.

    """

    name: str
    suffixes: tuple[str, ...]
    recognised: Callable[[bytes], bool]
    reader: str

    def read(self, path: Path) -> Profile | IaprofProfile:
        """Read a file.

        Raises:
            RecordingError: It is damaged; says where.

        """
        module, _, name = self.reader.partition(":")
        read: Callable[[Path], Profile | IaprofProfile] = getattr(import_module(module), name)
        return read(path)


def _is_folded(head: bytes) -> bool:
    """Most lines end in a number, and many have several frames: tracers' lines have no `;` between names."""
    lines = [line for line in head.split(b"\n")[: None if len(head) < HEAD else -1] if line.strip()]
    folded = [line for line in lines if _FOLDED.fullmatch(line)]
    return len(folded) >= max(1, _MOSTLY * len(lines)) and sum(b";" in line for line in folded) * 2 >= len(folded)


def _is_perf(head: bytes) -> bool:
    """Some frame stands below a sample. Line by line, and no pattern that could try much: any file may come here."""
    return any(_PERF_FRAME.fullmatch(below) and _PERF_SAMPLE.match(line) for line, below in pairwise(head.split(b"\n")))


def _is_json(form: re.Pattern[bytes]) -> Callable[[bytes], bool]:
    return lambda head: head.lstrip()[:1] in (b"{", b"[") and form.search(head) is not None


FORMATS: Final = (
    Format(
        "iaprof",
        (),
        lambda head: _IAPROF.match(head) is not None,
        "accel_magic.profiles.iaprof:read",
    ),
    Format("speedscope", (".speedscope.json",), _is_json(_SPEEDSCOPE), "accel_magic.profiles.speedscope:read"),
    Format("Chrome CPU profile", (".cpuprofile",), _is_json(_CHROME), "accel_magic.profiles.chrome:read"),
    Format(
        "perf script with call stacks",
        (),
        _is_perf,
        "accel_magic.profiles.perf_script:read",
    ),
    Format("folded stacks", (".folded", ".collapsed"), _is_folded, "accel_magic.profiles.folded:read"),
)


def recognise(path: Path) -> Format | None:
    """Tell what kind of profile a file is; None where it is none, or cannot be read.

    Raises:
        RecordingError: It is a profile of pprof's.

    """
    try:
        with path.open("rb") as file:
            head = file.read(HEAD)
    except OSError:
        return None
    if head.startswith(_PARQUET):
        return None
    if pprof.is_pprof(head, path):
        raise pprof.refusal(path)
    named = (format_ for format_ in FORMATS if path.name.endswith(format_.suffixes) and format_.suffixes)
    return next(named, None) or next((format_ for format_ in FORMATS if format_.recognised(head)), None)
