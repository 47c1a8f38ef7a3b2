"""What crosses the broker's socket: JSON with a length, and descriptors. Everything received is checked.

A connection belongs to one process. Requests and answers take turns; with a `TraceRequest` come the descriptors of the
files that its places are in, open for reading.

| request | answer | descriptors |
|---|---|---|
| `hello`: version | what is allowed, for the doctor | |
| `plan`: a `TraceRequest` | its number, the plan | |
| `attach`: a `TraceRequest` (or the number of a plan), helpers, Python's layout | number, plan, layouts | maps, rings |
| `statistics`: number | hits for which no program ran, CPU time, notes | |
| `detach`: number | notes | |
| `status` | the traces that ran when this connection began, as far as the user may see them | |

Answers have `error` (the fields of an `AccelMagicError`) instead, if something is wrong, and `last` if the broker then
closes the connection.
"""

from __future__ import annotations

import json
import math
import os
import socket
import struct
import time
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from accel_magic.errors import ERRORS, AccelMagicError, MachineError
from accel_magic.probes.plan import USER_KINDS, ProbePoint, Skipped, UsdtArgument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VERSION: Final = 1
LARGEST_REQUEST: Final = 4 << 20
LARGEST_ANSWER: Final = 64 << 20
MOST_FILES: Final = 64
MOST_DESCRIPTORS: Final = 250
_MOST_WORDS: Final = 256
_LONGEST_WORD: Final = 4096
REGISTERS: Final = frozenset(
    ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "ip", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"]
)
_GONE: Final = "the other side is gone"
_STACKS: Final = ("user", "python")


class MessageError(ValueError):
    """A message is not what it should be; the text says what is wrong."""


def receive(connection: socket.socket, *, largest: int, timeout_s: float | None) -> tuple[dict[str, Any], list[int]]:
    """Receive one message.

    Args:
        connection: A stream socket.
        largest: Maximum bytes of its JSON.
        timeout_s: Maximum time for the whole message once its first byte has come; None: any.

    Returns:
        The message, and the descriptors that came with its length.

    Raises:
        MessageError: It is too large, not a JSON object, or has more descriptors than allowed.
        TimeoutError: It did not come in time.
        ConnectionError: The other side is gone.

    """
    head, descriptors, flags, _ = socket.recv_fds(connection, 4, MOST_DESCRIPTORS)
    try:
        message = _content(connection, head, largest, timeout_s)
        if flags & socket.MSG_CTRUNC:
            raise MessageError("too many descriptors")  # noqa: TRY301 - they must be closed
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    return message, list(descriptors)


def _content(connection: socket.socket, head: bytes, largest: int, timeout_s: float | None) -> dict[str, Any]:
    until = None if timeout_s is None else time.monotonic() + timeout_s
    if not head:
        raise ConnectionError(_GONE)
    (size,) = struct.unpack("<I", head + _exactly(connection, 4 - len(head), until))
    if size > largest:
        raise MessageError(f"{size} bytes, at most {largest} are allowed")
    try:
        message = json.loads(_exactly(connection, size, until))
    except (RecursionError, ValueError):  # ValueError: not UTF-8, not JSON, or a number with too many digits
        raise MessageError("not JSON") from None
    return _object(message)


def _exactly(connection: socket.socket, size: int, until: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if until is not None:
            connection.settimeout(max(until - time.monotonic(), 0.001))
        part = connection.recv(min(size - len(data), 1 << 16))
        if not part:
            raise ConnectionError(_GONE)
        data += part
    if until is not None:
        connection.settimeout(None)
    return bytes(data)


def encoded_error(error: AccelMagicError) -> dict[str, Any]:
    """Encode an error as an answer."""
    return {
        "error": {
            "kind": type(error).__name__,
            "what": error.what,
            "why": error.why,
            "fix": error.fix,
            "code": error.code,
        }
    }


def raise_error(answer: Mapping[str, Any]) -> None:
    """Raise the error of an answer, if it has one."""
    error = answer.get("error")
    if error is None:
        return
    kind = ERRORS.get(str(error["kind"]), MachineError)
    raise kind(str(error["what"]), why=str(error["why"]), fix=str(error["fix"]), code=str(error["code"]))


@dataclass(frozen=True)
class FilePlaces:
    """The places in user-space files that one probe matches, found by the user's own process.

    Attributes:
        points: The places; their targets are paths for display.
        files: For each point, the number of its file's descriptor.
        skipped: Places that cannot be traced.
        notes: Notes for the user.
        error: The probe matches nothing: what, why, fix, code; None otherwise.

    """

    points: tuple[ProbePoint, ...] = ()
    files: tuple[int, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    error: tuple[str, str, str, str] | None = None

    def encoded(self) -> dict[str, Any]:
        """Encode as JSON."""
        points = [
            {
                "target": point.target,
                "function": point.function,
                "offset": point.offset,
                "semaphore": point.semaphore,
                "aliases": point.aliases,
                "usdt_arguments": [asdict(argument) for argument in point.usdt_arguments],
            }
            for point in self.points
        ]
        skipped = [[each.function, each.why] for each in self.skipped]
        return {"points": points, "files": self.files, "skipped": skipped, "notes": self.notes, "error": self.error}


@dataclass(frozen=True)
class TraceRequest:
    """What a user asks for; the options of `accel_magic.probes.matching.make_plan`, and `stacks`.

    Attributes:
        places: By the number of the probe among the parsed ones.

    """

    specs: tuple[str, ...]
    mode: str = "auto"
    scope: str = ""
    filter: str = ""
    args: str = ""
    max_events: int | None = None
    duration_s: float | None = None
    buffer_mib: float = 64.0
    stacks: tuple[str, ...] = ()
    places: Mapping[int, FilePlaces] | None = None

    def encoded(self) -> dict[str, Any]:
        """Encode as JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        places = {str(number): each.encoded() for number, each in (self.places or {}).items()}
        return {**values, "places": places}


def decoded_request(data: object, files: int) -> TraceRequest:
    """Check and decode a request.

    Args:
        data: From the message.
        files: Number of descriptors that came with it.

    Raises:
        MessageError: It is not a request.

    """
    values = _object(data, {field.name for field in fields(TraceRequest)})
    places = {
        _number(int(key) if key.isascii() and key.isdecimal() and len(key) < 6 else -1, 0, _MOST_WORDS): _places(
            each, files
        )
        for key, each in _object(values["places"]).items()
    }
    limit, duration = values["max_events"], values["duration_s"]
    return TraceRequest(
        specs=_texts(values["specs"], _MOST_WORDS),
        mode=_text(values["mode"]),
        scope=_text(values["scope"]),
        filter=_text(values["filter"]),
        args=_text(values["args"]),
        max_events=None if limit is None else _number(limit, 1, 1 << 40),
        duration_s=None if duration is None else _real(duration),
        buffer_mib=_real(values["buffer_mib"]),
        stacks=tuple(kind for kind in _STACKS if kind in _texts(values["stacks"], 4)),
        places=places,
    )


def _places(data: object, files: int) -> FilePlaces:
    values = _object(data, {"points", "files", "skipped", "notes", "error"})
    points = tuple(_point(each) for each in _list(values["points"], 10_000))
    of = tuple(_number(each, 0, files - 1) for each in _list(values["files"], 10_000))
    if len(of) != len(points):
        raise MessageError("places and files differ in number")
    pairs = [_texts(each, 2) for each in _list(values["skipped"], 10_000)]
    error = values["error"]
    reported = None if error is None else _texts(error, 4)
    if any(len(pair) != 2 for pair in pairs) or (reported is not None and len(reported) != 4):
        raise MessageError("not places")
    return FilePlaces(
        points,
        of,
        tuple(Skipped(*pair) for pair in pairs),
        _texts(values["notes"], 100),
        None if reported is None else (reported[0], reported[1], reported[2], reported[3]),
    )


def _point(data: object) -> ProbePoint:
    values = _object(data, {"target", "function", "offset", "semaphore", "aliases", "usdt_arguments"})
    return ProbePoint(
        0,
        "",
        USER_KINDS[0],
        _text(values["target"]),
        _text(values["function"]),
        offset=_number(values["offset"], 0, 1 << 62),
        semaphore=_number(values["semaphore"], 0, (1 << 32) - 1),
        aliases=_texts(values["aliases"], 1000),
        usdt_arguments=tuple(_argument(each) for each in _list(values["usdt_arguments"], 12)),
    )


def _argument(data: object) -> UsdtArgument:
    values = _object(data, {"form", "size", "register", "value", "index", "scale"})
    form, size = values["form"], values["size"]
    if form not in ("register", "constant", "memory") or size not in (-8, -4, -2, -1, 1, 2, 4, 8):
        raise MessageError("not an argument of a USDT probe")
    register, index = _text(values["register"]), _text(values["index"])
    known = REGISTERS if form != "constant" else {"", "unreadable"}
    if register not in known or index not in {"", *REGISTERS}:
        raise MessageError("not a register")
    scale = _number(values["scale"], 1, 8)
    return UsdtArgument(form, size, register, _number(values["value"], -(1 << 63), (1 << 63) - 1), index, scale)


def _object(data: object, names: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(data, dict) or (names is not None and data.keys() != names):
        raise MessageError("not an object with the expected members")
    return data


def _list(data: object, most: int) -> list[Any]:
    if not isinstance(data, list) or len(data) > most:
        raise MessageError("not a list, or too long")
    return data


def _text(data: object) -> str:
    if not isinstance(data, str) or len(data) > _LONGEST_WORD or "\0" in data:
        raise MessageError("not a text, or too long")
    return data


def _texts(data: object, most: int) -> tuple[str, ...]:
    return tuple(_text(each) for each in _list(data, most))


def _number(data: object, least: int, most: int) -> int:
    if not isinstance(data, int) or isinstance(data, bool) or not least <= data <= most:
        raise MessageError("not a number in range")
    return data


def _real(data: object) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float) or not math.isfinite(data):
        raise MessageError("not a number")
    return float(data)


def processes(data: object, most: int) -> list[int]:
    """Check a list of process ids. Raises MessageError."""
    return [_number(each, 1, 1 << 22) for each in _list(data, most)]


def numbers(data: object, names: Sequence[str]) -> dict[str, int]:
    """Check an object of 64-bit numbers. Raises MessageError."""
    values = _object(data, set(names))
    return {name: _number(values[name], -(1 << 63), (1 << 64) - 1) for name in names}
