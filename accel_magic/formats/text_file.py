r"""Text files of other tools, read as UTF-8 with line feeds, however they were written.

| written | read |
|---|---|
| UTF-8, with or without a byte order mark | without the mark |
| UTF-16 or UTF-32 with a byte order mark, UTF-16 without (PowerShell's `>`, editors) | converted |
| most lines end in a carriage return only | all lines with line feeds |
| anything else, including invalid UTF-8 and `\r\n` | unchanged |
"""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, cast

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import WriteableBuffer

HEAD: Final = 1 << 18
_TAIL: Final = 1 << 12
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins with the mark of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MOSTLY: Final = 0.6
"""Least share of characters below 256 in UTF-16 without a mark."""
_FEW: Final = 0.25


@dataclass(frozen=True)
class Form:
    """How a text is written.

    Attributes:
        codec: Python's name of its encoding.
        mark: Bytes of its byte order mark.
        returns: Its lines end in carriage returns.

    """

    codec: str = "utf-8"
    mark: int = 0
    returns: bool = False

    @property
    def plain(self) -> bool:
        """Whether its bytes are used unchanged, after the mark."""
        return self.codec == "utf-8" and not self.returns

    @property
    def errors(self) -> str:
        """Python's error handler for decoding and encoding: invalid UTF-8 is kept."""
        return "surrogateescape" if self.codec == "utf-8" else "replace"


def form_of(head: bytes) -> Form:
    """Return how a text that begins with `head` is written."""
    mark, codec = next(((mark, codec) for mark, codec in _MARKS if head.startswith(mark)), (b"", _unmarked(head)))
    text = head if codec == "utf-8" else head[len(mark) :].decode(codec, "replace").encode()
    parted = len(head) >= HEAD and text.endswith(b"\r")  # a line feed may follow
    alone = text.count(b"\r") - text.count(b"\r\n") - parted
    return Form(codec, len(mark), returns=b"\0" not in text and alone > 0 and alone >= text.count(b"\n"))


def _unmarked(head: bytes) -> str:
    """Return UTF-16 if every other byte is mostly zero and the rest rarely, else UTF-8."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    enough = _MOSTLY * (len(head) // 2)
    if odd > enough and even <= _FEW * odd:
        return "utf-16-le"
    return "utf-16-be" if even > enough and odd <= _FEW * even else "utf-8"


class _Converted(io.RawIOBase):
    """The bytes of a text as UTF-8."""

    def __init__(self, text: io.TextIOWrapper, errors: str) -> None:
        self._text = text
        self._errors = errors
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        if not self._rest:
            self._rest = self._text.read(max(len(view), 1 << 16)).encode("utf-8", self._errors)
        part, self._rest = self._rest[: len(view)], self._rest[len(view) :]
        view[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._text.close()
        super().close()


def opened(path: Path) -> BinaryIO:
    """Open a file for reading, as UTF-8 with line feeds. Raises OSError."""
    file = path.open("rb")
    try:
        form = form_of(file.read(HEAD))
        file.seek(form.mark)
    except BaseException:
        file.close()
        raise
    if form.plain:
        return file
    text = io.TextIOWrapper(file, form.codec, form.errors, newline=None if form.returns else "")
    return cast("BinaryIO", io.BufferedReader(_Converted(text, form.errors), 1 << 20))


def read(path: Path) -> bytes:
    """Return the whole text. Raises OSError."""
    with opened(path) as file:
        return file.read()


def unended(path: Path) -> bytes:
    """Return the last line if it has no line end and so may be truncated, else nothing. Raises OSError."""
    with path.open("rb") as file:
        form = form_of(file.read(HEAD))
        size = file.seek(0, io.SEEK_END)
        file.seek(form.mark + max((size - form.mark - _TAIL) // 4 * 4, 0))  # a whole character of any UTF-16 or UTF-32
        tail = file.read()
    if form.codec != "utf-8":
        tail = tail.decode(form.codec, "replace").encode()
    return (tail.replace(b"\r", b"\n") if form.returns else tail).rpartition(b"\n")[2].strip()
