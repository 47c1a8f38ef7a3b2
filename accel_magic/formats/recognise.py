"""Recognize a file's format by its content: recordings, profiles and other tools' output.

A file's name decides only if the content matches no format, so that the error is about the intended format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from accel_magic.errors import RecordingError
from accel_magic.formats import (
    bpftrace,
    bpftrace_json,
    folded,
    ftrace,
    function_graph,
    page_tables,
    perf_fields,
    printed_reports,
    probeless_lines,
    text_file,
    uvm_smart,
)
from accel_magic.formats.event_lines import split
from accel_magic.policies import trace_file
from accel_magic.recording import container, gpu_store, profile_store, recording_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Claim: TypeAlias = Callable[["Head"], NDArray[np.bool_]]

Content: TypeAlias = Literal["trace", "GPU trace", "profile", "pages", "events", "stacks"]
"""Content of a file: a trace, a GPU trace or a profile saved by accel_magic; pages that were accessed; another tool's
events or stacks."""

HEAD: Final = text_file.HEAD
_MOSTLY: Final = 0.9
_MIXED: Final = 0.05
"""Share of lines that may belong to another format."""

_UNPRINTABLE: Final = np.array([byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in range(256)])
_COMPRESSED: Final = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"\xfd7zXZ": ("xz", "unxz"),
    b"BZh": ("bzip2", "bunzip2"),
    b"(\xb5/\xfd": ("zstd", "unzstd"),
    b"PK\x03\x04": ("zip", "unzip"),
}
_BINARY: Final = {
    b"PERFILE2": ("perf's own data", "perf script -i {path} > {name}.txt"),
    b"\x17\x08\x44tracing": ("trace-cmd's own data", "trace-cmd report -i {path} > {name}.txt"),
}
"""Magic number of binary formats, their name, and the command that converts them to text."""

_ELF: Final = b"\x7fELF"
_PPROF: Final = (".pb.gz", ".pprof", ".pb")
_MAP: Final = r"^@\w*(?:\[.*\])?: *(?:\d+|)\s*$|^@\w*\[\s*$"
_FOLDED: Final = re.compile(rb"(?:(?!@|\s)[^\n]*\S[ \t]+[0-9]{1,19}(?:,-?[0-9]{1,19})*[ \t]*|[ \t][0-9]{1,19})\r?\n?")
"""A stack, which may be empty or have several weights."""
_FRAMES: Final = re.compile(rb";|\([^()]*:[0-9]+\) ")
_SPEEDSCOPE: Final = re.compile(rb'speedscope\.app/file-format-schema|"shared"\s*:\s*\{\s*"frames"')
_CHROME: Final = re.compile(rb'"callFrame"\s*:|"stackFrames"\s*:|"traceEvents"\s*:|"timeDeltas"\s*:|"ph"\s*:\s*"')
_JSON: Final = {"speedscope JSON": _SPEEDSCOPE, "Chrome JSON with CPU profiles": _CHROME}
_OVERLAP: Final = 128


@dataclass(frozen=True)
class Head:
    """The beginning of a file."""

    data: bytes

    @cached_property
    def lines(self) -> pa.BinaryArray:
        """Its lines, each with its line end; without the last one if it may be truncated."""
        lines = split(self.data)
        return lines.slice(0, len(lines) - 1) if len(self.data) >= HEAD and len(lines) > 1 else lines

    @cached_property
    def perf(self) -> perf_fields.Losses:
        """Its lines as those of perf script, and how many of them each reader would not keep completely."""
        return perf_fields.losses(self.lines, self.like(ftrace.LINE))

    def all(self) -> NDArray[np.bool_]:
        """Claim every line."""
        return np.ones(len(self.lines), np.bool_)

    def none(self) -> NDArray[np.bool_]:
        """Claim no line."""
        return np.zeros(len(self.lines), np.bool_)

    def like(self, pattern: str) -> NDArray[np.bool_]:
        """Claim the lines that match."""
        return np.asarray(pc.match_substring_regex(self.lines, pattern))


@dataclass(frozen=True)
class FileFormat:
    """One kind of file.

    Attributes:
        name: In words.
        content: What it contains.
        reader: The function that reads it, as `module:function`; for events, the one that parses its lines.
        claims: Returns which lines of a text have this format, (lines,) bool; none of files that are not text.
        suffixes: File name endings that indicate this format.
        takes_units: Whether `reader` takes the user's units, as `given`.
        result: The result class for stacks, as `module:class`; `` for a ProfileResult.

    """

    name: str
    content: Content
    reader: str
    claims: Claim = Head.none
    suffixes: tuple[str, ...] = ()
    takes_units: bool = False
    result: str = ""


def _folded(head: Head) -> NDArray[np.bool_]:
    """Claim lines if most end in a number and at least half have several frames or a line number, unlike tracers'.

    Comments do not count.
    """
    lines = head.lines.to_pylist()
    comments = np.array([folded.COMMENT.match(line) is not None for line in lines], np.bool_)
    fits = np.array([_FOLDED.fullmatch(line) is not None for line in lines], np.bool_) & ~comments
    filled = sum(bool(line.strip()) for line in lines) - int(comments.sum())
    several = sum(_FRAMES.search(line) is not None for line, each in zip(lines, fits, strict=True) if each)
    enough = fits.sum() >= max(1, _MOSTLY * filled) and several * 2 >= fits.sum()
    return fits | comments if enough else head.none()


def _perf_stacks(head: Head) -> NDArray[np.bool_]:
    """Claim perf's lines if a trace would lose more of them than a profile: stacks, symbols or weights, or fields."""
    return head.perf.lines if head.perf.in_trace > head.perf.in_profile else head.none()


def _perf_events(head: Head) -> NDArray[np.bool_]:
    return head.perf.lines if head.perf.in_trace <= head.perf.in_profile else head.none()


def _json(name: str) -> Claim:
    form = _JSON[name]
    return lambda head: head.all() if head.data.lstrip()[:1] in (b"{", b"[") and form.search(head.data) else head.none()


def _bpftrace(head: Head) -> NDArray[np.bool_]:
    """Claim lines of probes and maps; in a file with bpftrace's first line, also other messages of scripts."""
    attached = head.like(bpftrace.ATTACHED)
    more = head.like(probeless_lines.LINE) if attached.any() else head.none()
    return attached | more | head.like(f"{bpftrace.LINE}|{_MAP}")


def _bpftrace_json(head: Head) -> NDArray[np.bool_]:
    """Claim lines that are an object each, or all lines of objects that have several."""
    several = head.data.lstrip()[:1] in (b"{", b"[") and bpftrace_json.OBJECT.search(head.data)
    return head.all() if several else head.like(bpftrace_json.LINE)


def _like(pattern: str) -> Claim:
    return lambda head: head.like(pattern)


RECORDING: Final = FileFormat("recording", "trace", "accel_magic.recording.recording_store:load")
_OWN: Final = {
    gpu_store.KIND.key: FileFormat("recording of %%gputrace", "GPU trace", "accel_magic.recording.gpu_store:load"),
    profile_store.KIND.key: FileFormat("saved profile", "profile", "accel_magic.recording.profile_store:load"),
    trace_file.KIND.key: FileFormat("page trace", "pages", "accel_magic.policies.page_trace:load"),
    recording_store.KIND.key: RECORDING,
}
"""Our own Parquet files, by the key in their metadata."""
_PAGES: Final = FileFormat(
    "Parquet with a column page or address", "pages", "accel_magic.formats.page_tables:read_parquet"
)

_IMPORTING: Final = "accel_magic.formats"
FORMATS: Final = (
    FileFormat(
        "UVM Smart output",
        "pages",
        f"{_IMPORTING}.uvm_smart:read_printed",
        lambda head: head.all() if uvm_smart.PRINTED in head.data else head.none(),
    ),
    FileFormat(
        "UVM Smart accesses",
        "pages",
        f"{_IMPORTING}.uvm_smart:read_accesses",
        lambda head: head.like(f"{uvm_smart.ACCESS}|{uvm_smart.LAUNCH}"),
    ),
    FileFormat(
        "CSV with a column page or address",
        "pages",
        f"{_IMPORTING}.page_tables:read_csv",
        lambda head: head.all() if page_tables.is_header(head.data.partition(b"\n")[0]) else head.none(),
    ),
    FileFormat(
        "speedscope JSON",
        "stacks",
        "accel_magic.formats.speedscope:read",
        _json("speedscope JSON"),
        (".speedscope.json",),
    ),
    FileFormat(
        "Chrome JSON with CPU profiles",
        "stacks",
        "accel_magic.formats.chrome:read",
        _json("Chrome JSON with CPU profiles"),
        (".cpuprofile",),
    ),
    FileFormat("perf script output with call stacks", "stacks", "accel_magic.formats.perf_script:read", _perf_stacks),
    FileFormat("folded stacks", "stacks", "accel_magic.formats.folded:read", _folded, (".folded", ".collapsed")),
    FileFormat(
        "bpftrace -f json output",
        "events",
        f"{_IMPORTING}.bpftrace_json:parse",
        _bpftrace_json,
        takes_units=True,
    ),
    FileFormat("bpftrace output", "events", f"{_IMPORTING}.bpftrace:parse", _bpftrace, takes_units=True),
    FileFormat("ftrace or trace-cmd output", "events", f"{_IMPORTING}.ftrace:parse", _like(ftrace.LINE)),
    FileFormat(
        "ftrace function_graph output", "events", f"{_IMPORTING}.function_graph:parse", _like(function_graph.CLAIM)
    ),
    FileFormat("perf script output", "events", f"{_IMPORTING}.perf:parse", _perf_events),
)
"""Other tools' text formats, in order of preference for lines that match several."""


def recognise(path: Path, more: Sequence[FileFormat] = ()) -> FileFormat:
    """Recognize a file's format.

    Args:
        path: The file.
        more: More text formats, which come before those of this package.

    Raises:
        RecordingError: The file does not exist or cannot be read; it is empty, compressed or binary, or has no known
            format, or several.

    """
    head = _start(path)
    formats = (*more, *FORMATS)
    if head is None or head.startswith(container.MAGIC):
        return _of_parquet(path, formats)
    _check_text(head, path, formats)
    return _of_text(Head(head), path, formats)


def _start(path: Path) -> bytes | None:
    """Return the first bytes; None if the file does not exist, since `container.opened` raises a better error."""
    try:
        if not path.is_file():
            return None
        with text_file.opened(path) as file:
            return file.read(HEAD)
    except (OSError, ValueError) as error:
        raise RecordingError(
            f"cannot read {path}",
            why=getattr(error, "strerror", None) or str(error),
            fix="check the path and its permissions",
            code="recording.unreadable",
        ) from error


def _of_parquet(path: Path, formats: Sequence[FileFormat]) -> FileFormat:
    """Recognize a Parquet file by its metadata, or by its columns if another tool wrote it.

    Raises:
        RecordingError: The file does not exist, is damaged, or is another kind of Parquet file.

    """
    with container.opened(path, recording_store.KIND) as opened:
        keys = frozenset(opened.file.metadata.metadata or {})
        names = opened.file.schema_arrow.names
    found = next((format_ for key, format_ in _OWN.items() if key in keys), None)
    if found is not None:
        return found
    if page_tables.is_table(names):
        return _PAGES
    raise _unknown(path, "it is another kind of Parquet file", formats)


def _check_text(head: bytes, path: Path, formats: Sequence[FileFormat]) -> None:
    """Raise RecordingError unless a file that begins with `head` is text."""
    if path.name.endswith(_PPROF):
        raise _unknown(path, "its name is that of a pprof profile, which is not supported", formats)
    for magic, (what, tool) in _COMPRESSED.items():
        if head.startswith(magic):
            raise RecordingError(
                f"{path} is not a recording",
                why=f"it is compressed ({what})",
                fix=f"decompress it with {tool}",
                code="recording.compressed",
            )
    for magic, (what, command) in _BINARY.items():
        if head.startswith(magic):
            text = command.format(path=path, name=path.stem)
            raise RecordingError(
                f"{path} is not a recording",
                why=f"it is {what}",
                fix=f"convert it to text ({text}) and open that",
                code="recording.binary-data",
            )
    if not head.strip():
        raise RecordingError(
            f"{path} is not a recording", why="it is empty", fix="record again", code="recording.empty"
        )
    if head.startswith(_ELF):
        raise RecordingError(
            f"{path} is not a recording",
            why="it is a program or library",
            fix=f"trace its functions: accel-magic trace 'uprobe:{path.absolute()}:*' -- COMMAND",
            code="recording.binary-data",
        )
    unprintable = int(_UNPRINTABLE[np.frombuffer(head, np.uint8)].sum())
    if b"\0" in head or unprintable > len(head) // 20:
        raise _unknown(path, "it is neither a Parquet file nor text", formats)


def _of_text(head: Head, path: Path, formats: Sequence[FileFormat]) -> FileFormat:
    left = head.all()
    seen: dict[str, int] = {}
    for format_ in formats:
        mine = format_.claims(head) & left
        seen[format_.name] = int(mine.sum())
        left &= ~mine
    best = max(formats, key=lambda format_: seen[format_.name])
    total = sum(seen.values())
    if not total and (late := _late_json(head, path)) is not None:
        return late
    if not total:
        named = (format_ for format_ in formats if path.name.endswith(format_.suffixes) and format_.suffixes)
        if meant := next(named, None):
            return meant
        _check_content(head, path)
        _check_report(head, path)
        raise _unknown(path, "it is text, but no line matches a known format", formats)
    others = [name for name, count in seen.items() if name != best.name and count > _MIXED * total]
    if others:
        raise RecordingError(
            f"{path} mixes {' and '.join([best.name, *others])}",
            why="their times and counts cannot be combined",
            fix="put each tool's output into a separate file",
            code="recording.mixed-formats",
        )
    return best


def _late_json(head: Head, path: Path) -> FileFormat | None:
    """Find the format of JSON that begins with something else, such as a trace's slices."""
    if head.data.lstrip()[:1] not in (b"{", b"["):
        return None
    with text_file.opened(path) as file:
        before = b""
        while data := file.read(HEAD):
            for name, form in _JSON.items():
                if form.search(before + data):
                    return next(format_ for format_ in FORMATS if format_.name == name)
            before = data[-_OVERLAP:]
    return None


def _check_content(head: Head, path: Path) -> None:
    """Raise RecordingError if all lines are comments, such as ftrace's header."""
    if head.like(r"^\s*(?:#[^\n]*|cpus=\d+)?\s*$").all():
        raise RecordingError(
            f"{path} contains no events and no stacks",
            why="it has only comments (#) and headers, as at the top of ftrace's and other tools' output",
            fix="record again; check that the tool traced something",
            code="recording.empty",
        )


def _check_report(head: Head, path: Path) -> None:
    """Raise RecordingError if a tool printed the text for people to read."""
    report = printed_reports.recognise(head.data)
    if report is not None:
        raise RecordingError(
            f"{path} is not a recording",
            why=f"it is output of {report.what}: {report.why}",
            fix=report.fix,
            code="recording.report",
        )


def _unknown(path: Path, why: str, formats: Sequence[FileFormat]) -> RecordingError:
    tried = ", ".join(format_.name for format_ in (*_OWN.values(), _PAGES, *formats))
    return RecordingError(
        f"{path} is not a recording",
        why=f"{why}; tried: {tried}",
        fix="give a file in one of these formats (docs/import.md lists tracers, docs/flame.md lists profilers)",
        code="recording.unknown-format",
    )


def named(place: str) -> Any:
    """Load an object given as `module:attribute`."""
    from importlib import import_module

    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
