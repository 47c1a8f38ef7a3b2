"""What a guest can do to this machine by its answers and by the files that it hands over."""

import json
import os
import random
import socket
import stat
import struct
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from accel_magic import scratch
from accel_magic.api.lab import trace_lab
from accel_magic.errors import AccelMagicError
from accel_magic.lab.guest.guest_frames import HEAD, LARGEST, GuestFrameKind, pack
from accel_magic.lab.vm import connection as lab_connection
from accel_magic.lab.vm.connection import Completed, GuestConnection, GuestGoneError
from tests.support import thorough

ANSWERS = thorough.choose(400, 40_000)
VALUES = [None, True, -1, 0, 1.5, 1 << 70, "", "x" * 5000, [], {}, [[]], {"status": 1}, float("nan")]
TEXTS = [b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"status": 1' + b"0" * 5000 + b"}", b"null", b"0"]


def frames(number):
    """The answers of an ordinary guest to one command."""
    return [
        [GuestFrameKind.READY, 0, ["7.2", 1.25]],
        [GuestFrameKind.OUTPUT, number, b"out"],
        [GuestFrameKind.ERROR, number, b"err"],
        [GuestFrameKind.EXIT, number, 3],
        [GuestFrameKind.REFUSED, number, "no"],
    ]


def changed(rng, number):
    """The bytes of such answers with something changed."""
    sent = rng.sample(frames(number), rng.randrange(1, 6))
    at = rng.randrange(len(sent))
    kind, process, payload = sent[at]
    how = rng.randrange(5)
    if how == 0 and isinstance(payload, list):
        sent[at][2] = rng.choice([payload[:1], [*payload, 1], [rng.choice(VALUES), 1.25], ["7.2", rng.choice(VALUES)]])
    elif how == 0 and not isinstance(payload, bytes):
        sent[at][2] = rng.choice(VALUES)
    elif how == 1:
        sent[at][2] = rng.choice(TEXTS)
    elif how == 2:
        sent[at][:2] = rng.choice([0, 1, 6, 15, 21, 255, kind]), rng.choice([0, 2, 1 << 31, process])
    data = bytearray()
    for kind, process, payload in sent:
        text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        data += HEAD.pack(kind, process, len(text)) + text
    if how == 3:
        struct.pack_into("<I", data, 5, rng.choice([0, 1, LARGEST, LARGEST + 1, 0xFFFFFFFF]))
    elif how == 4:
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def test_changed_answers_of_a_guest_are_answers_or_end_the_connection(monkeypatch):
    raised, ends = [], {"status": 0, "refused": 0, "gone": 0}
    monkeypatch.setattr(threading, "excepthook", raised.append)
    rng = random.Random(29)
    for _ in range(ANSWERS):
        host, guest = socket.socketpair()
        connection = GuestConnection(host)
        process = connection.start(["x"], cwd="/", env={}, terminal=None, on_output=lambda *_: None)
        with guest:
            guest.sendall(changed(rng, 1))
        try:
            assert isinstance(process.wait(60), int)
            ends["status"] += 1
        except FileNotFoundError:
            ends["refused"] += 1
        except GuestGoneError:
            ends["gone"] += 1
        assert connection.gone.wait(60)
        assert [type(value) for value in connection.guest] == [str, float]
    assert raised == []
    assert min(ends.values()) > ANSWERS // 20


def test_the_connection_keeps_no_more_than_one_frame():
    host, guest = socket.socketpair()
    connection = GuestConnection(host)
    taken = []
    connection.start(["x"], cwd="/", env={}, terminal=None, on_output=lambda _, data: taken.append(len(data)))
    with guest:
        for _ in range(20):
            guest.sendall(pack(GuestFrameKind.OUTPUT, 1, bytes(1 << 20)))
            guest.sendall(pack(GuestFrameKind.OUTPUT, 7, bytes(1 << 20)))  # of no command
        guest.sendall(HEAD.pack(GuestFrameKind.OUTPUT, 1, LARGEST + 1))
        assert connection.gone.wait(60)
    assert taken == [1 << 20] * 20
    assert lab_connection._PIECE <= LARGEST


class Planting:
    """A lab whose guest does something in the exchange folder instead of tracing."""

    def __init__(self, folder, plant):
        self.exchange, self.logs = folder / "exchange", folder
        self.exchange.mkdir()
        self.settings = SimpleNamespace(memory_mib=64)
        self._plant = plant

    def run(self, command, **_):
        self._plant(Path(command[-1]))
        return Completed(tuple(command), 0, b"", b"")


def answered(target, text='{"status": 0}'):
    Path(f"{target}.json").write_text(text)


def recorded(target, line, size=0):
    answered(target)
    with target.open("wb") as file:
        file.write(line)
        file.truncate(max(size, len(line)))


def replaced(target, outside):
    """Put a link to another folder in the place of the folder."""
    target.parent.rename(target.parent.with_name("moved"))
    target.parent.symlink_to(outside)


PLANTED = {
    "nothing": lambda target, _: None,
    "a link as the answer": lambda target, outside: Path(f"{target}.json").symlink_to(outside / "recording.json"),
    "a FIFO as the answer": lambda target, _: os.mkfifo(f"{target}.json"),
    "a folder as the answer": lambda target, _: Path(f"{target}.json").mkdir(),
    "a huge answer": lambda target, _: (answered(target), os.truncate(f"{target}.json", 1 << 40)),
    "an answer that is nested deeply": lambda target, _: answered(target, "[" * 100_000),
    "an answer that is no object": lambda target, _: answered(target, "[1]"),
    "an answer without a status": lambda target, _: answered(target, "{}"),
    "an answer with another status": lambda target, _: answered(target, '{"status": "0"}'),
    "no recording": lambda target, _: answered(target),
    "a link as the recording": lambda target, outside: (answered(target), target.symlink_to(outside / "secret")),
    "a device as the recording": lambda target, _: (answered(target), target.symlink_to("/dev/zero")),
    "a FIFO as the recording": lambda target, _: (answered(target), os.mkfifo(target)),
    "a recording of more than the guest's memory": lambda target, _: recorded(target, b"[99999999999]\n", 1 << 40),
    "sizes beyond the file": lambda target, _: recorded(target, b"[10, 10, 1000000]\n"),
    "a negative size": lambda target, _: recorded(target, b"[-1]\n", 1 << 40),
    "a size that is none": lambda target, _: recorded(target, b'["x", null]\n'),
    "sizes that are nested deeply": lambda target, _: recorded(target, b"[" * 60_000 + b"\n"),
    "descriptions that are none": lambda target, _: recorded(target, b"[2, 2]\n{}[]"),
    "a link as the folder": replaced,
}


@pytest.mark.parametrize("planted", PLANTED)
def test_whatever_a_guest_hands_over_is_a_typed_error_and_touches_nothing_else(tmp_path, planted):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (outside / "recording.json").write_text('{"error": "MachineError", "what": "secret"}')
    outside.chmod(0o500)
    before = {path: (path.stat().st_mode, path.stat().st_mtime_ns) for path in (outside, *outside.iterdir())}
    lab = Planting(tmp_path, lambda target: PLANTED[planted](target, outside))

    with pytest.raises(AccelMagicError) as caught:
        trace_lab(lab, "tracepoint:syscalls:sys_enter_getppid", command=["true"])

    assert caught.value.code in ("lab.trace-failed", "recording.damaged")
    assert "secret" not in str(caught.value)
    assert {path: (path.stat().st_mode, path.stat().st_mtime_ns) for path in before} == before


def test_folders_of_a_guest_are_removed_however_deep_they_are_and_links_are_not_followed(tmp_path):
    kept, made = tmp_path / "kept", tmp_path / "made"
    kept.mkdir()
    (kept / "file").touch()
    made.mkdir()
    place = os.open(made, os.O_RDONLY)
    for number in range(3000):
        for name in ("x", "y") if number % 100 == 0 else ("x",):
            os.mkdir(name, dir_fd=place)
        os.symlink(kept, "link", dir_fd=place)
        inner = os.open("x", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    (made / "y").chmod(0)

    scratch.remove_tree(made)
    assert not made.exists()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o755
    assert [path.name for path in kept.iterdir()] == ["file"]
