"""Parts of the notebook's side of native binaries: messages, launches, images, memory."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from accel_magic.errors import MachineError
from accel_magic.gpu.native import cuda_images, native_protocol, native_server
from accel_magic.gpu.native.child_memory import ChildMemory
from accel_magic.gpu.native.cuda_images import CudaApi
from accel_magic.gpu.native.native_process import LaunchRing
from accel_magic.gpu.native.native_protocol import Kept, Language, Left, MessageKind, NativeMessage
from accel_magic.gpu.native.native_server import NativeServer
from tests.support.errors import raises
from tests.unit.gpu.native.conftest import PTX

COMMON = Path(native_protocol.__file__).with_name("common")


def test_python_and_c_agree_on_the_layout_of_messages_and_rings(tmp_path):
    compiler = shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    counters = [name for name in native_protocol.RING.names if name not in {"unused", "launches"}]
    fields = [name for name in native_protocol.LAUNCH.names if name != "unused"]
    lines = [
        *(f'printf("{name} %zu\\n", offsetof(struct ring, {name}));' for name in (*counters, "launches")),
        *(f'printf("launch.{name} %zu\\n", offsetof(struct launch, {name}));' for name in fields),
        *(f'printf("{name} %zu\\n", sizeof(struct {name}));' for name in ("ring", "launch", "message")),
        *(f'printf("{kind.name} %d\\n", {kind.name});' for kind in (*MessageKind, *Kept, *Language, *Left)),
        'printf("version %d\\n", WIRE_VERSION);',
    ]
    source = tmp_path / "layout.c"
    text = "#include <stddef.h>\n#include <stdio.h>\n#include <stdatomic.h>\n#include <wire.h>\n"
    source.write_text(text + "int main(void) {\n" + "\n".join(lines) + "\nreturn 0; }\n")
    subprocess.run([compiler, "-std=gnu11", f"-I{COMMON}", "-o", tmp_path / "layout", source], check=True)

    printed = subprocess.run([tmp_path / "layout"], capture_output=True, text=True, check=True).stdout

    assert dict(line.rsplit(" ", 1) for line in printed.splitlines()) == {
        **{name: str(native_protocol.RING.fields[name][1]) for name in (*counters, "launches")},
        **{f"launch.{name}": str(native_protocol.LAUNCH.fields[name][1]) for name in fields},
        "ring": str(native_protocol.RING.itemsize),
        "launch": str(native_protocol.LAUNCH.itemsize),
        "message": "32",
        **{kind.name: str(kind.value) for kind in (*MessageKind, *Kept, *Language, *Left)},
        "version": str(native_protocol.VERSION),
    }


@pytest.fixture
def ends():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        yield one, other


def test_a_message_arrives_with_its_text_and_descriptor(ends, tmp_path):
    (tmp_path / "file").write_text("content")
    with (tmp_path / "file").open() as file:
        native_protocol.send(ends[0], NativeMessage(MessageKind.IMAGE, 1, 2, 3, 4, "näme", file.fileno()))
    got = native_protocol.receive(ends[1])

    assert (got.kind, got.number, got.a, got.b, got.c, got.text) == (MessageKind.IMAGE, 1, 2, 3, 4, "näme")
    with open(got.descriptor) as again:  # noqa: PTH123 - a descriptor has no path
        assert again.read() == "content"


def test_a_closed_connection_gives_no_message_and_half_a_message_is_an_error(ends):
    ends[0].send(b"half")
    with pytest.raises(ValueError, match="too short"):
        native_protocol.receive(ends[1])
    ends[0].close()
    assert native_protocol.receive(ends[1]) is None


def written(ring, *turns):
    """Write launches like a process; turn 0 marks one that is not complete yet."""
    view = np.memmap(f"/proc/self/fd/{ring.descriptor}", native_protocol.RING, mode="r+", shape=(1,))[0]
    start = int(view["reserved"])
    for place, turn in enumerate(turns, start):
        slot = view["launches"][place % native_protocol.RECORDS]
        slot["turn"], slot["function"] = turn, place
    view["reserved"] = start + len(turns)


def test_launches_are_read_in_order_up_to_the_first_incomplete_one():
    ring = LaunchRing()
    written(ring, 1, 2, 0, 4)

    assert ring.take(ring["reserved"])["function"].tolist() == [0, 1]
    assert ring["consumed"] == 2
    assert len(ring.take(ring["reserved"])) == 0
    ring.close()


def test_launches_continue_at_the_beginning_of_the_ring_after_its_end():
    ring = LaunchRing()
    written(ring, *range(1, native_protocol.RECORDS - 1))
    ring.take(ring["reserved"])
    written(ring, *range(native_protocol.RECORDS - 1, native_protocol.RECORDS + 3))

    assert ring.take(ring["reserved"])["function"].tolist() == list(
        range(native_protocol.RECORDS - 2, native_protocol.RECORDS + 2)
    )
    written(ring, 3)  # a turn of the previous round: not written yet
    assert len(ring.take(ring["reserved"])) == 0
    ring.close()
    assert ring["consumed"] == native_protocol.RECORDS + 2


def test_the_kind_of_an_image_is_detected_from_its_first_bytes():
    text = PTX.read_bytes()
    fatbin = PTX.with_name("kernels.fatbin").read_bytes()

    assert cuda_images.code_of(text + b"\0", 90) == cuda_images.ImageCode(text.decode(), ("add", "fill"))
    assert cuda_images.code_of(fatbin, 90).kernels == ("add", "fill")
    assert cuda_images.code_of(fatbin, 90).ptx.count(".entry") == 2


def test_ptx_for_newer_devices_is_not_used():
    fatbin = PTX.with_name("kernels.fatbin").read_bytes()

    found = cuda_images.code_of(fatbin, 70)

    assert (found.ptx, found.problem) == ("", "its PTX is for newer devices than sm_70")
    assert found.kernels == ("add", "fill")


@pytest.mark.parametrize(
    ("target", "device", "raised"),
    [("sm_52", 90, "sm_75"), ("sm_80", 90, "sm_80"), ("sm_90a", 90, "sm_90a"), ("sm_52", 61, "sm_52")],
)
def test_only_targets_older_than_programs_can_be_compiled_for_are_raised(target, device, raised):
    text = f".version 7.0\n.target {target}\n.address_size 64\n"

    assert cuda_images.raised(text, device) == text.replace(target, raised)


class Process:
    """A mock process that returns the given addresses."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.received = []

    def ask(self, message):
        content = os.pread(message.descriptor, 1 << 20, 0)
        self.asked.append((message.kind, message.number, message.a, content[:8], len(content)))
        return self.answers.pop(0)

    def memory(self):
        return ChildMemory(self.ask, self.received.append, None)


def test_memory_of_a_process_is_a_file_with_the_content_and_freed_by_address():
    process = Process(
        NativeMessage(MessageKind.ADDRESS, a=0x1000, c=Kept.COPIED),
        NativeMessage(MessageKind.ADDRESS, a=0x9000, c=Kept.MAPPED),
    )
    memory = process.memory()
    content = np.arange(5000, dtype=np.uint8)

    assert memory.allocate(content) == 0x1000
    assert memory.allocate(np.zeros(1, np.uint8), "host") == 0x9000

    assert process.asked == [
        (MessageKind.ALLOCATE, 0, 8192, bytes(range(8)), 8192),
        (MessageKind.ALLOCATE, 1, 4096, bytes(8), 4096),
    ]
    assert memory.read(0x1000 + 300, 4).tolist() == [44, 45, 46, 47]
    assert memory.live
    memory.free(0x1000)
    assert process.received == [NativeMessage(MessageKind.FREE, a=0x1000)]


def test_memory_that_is_only_copied_is_not_live():
    process = Process(NativeMessage(MessageKind.ADDRESS, a=0x1000, c=Kept.ALLOCATED))
    memory = process.memory()
    memory.allocate(np.zeros(1, np.uint8), "host")

    assert not memory.live


def test_the_error_for_a_failed_allocation_has_the_size_and_the_drivers_error():
    memory = Process(NativeMessage(MessageKind.ADDRESS, b=2)).memory()

    with raises("cuda.out-of-memory", MachineError, match=r"4,096 bytes") as caught:
        memory.allocate(np.zeros(100, np.uint8))
    assert "error 2" in caught.value.why


def test_a_connection_that_sends_an_invalid_message_is_closed():
    server = NativeServer((), 1, None, None, lambda _: {}, api=CudaApi)
    server.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(server.name.replace("@", "\0", 1))
        stranger.send(b"hello?")
        stranger.settimeout(10)
        assert stranger.recv(100) == b""

    assert server.finish() == ()


def test_a_process_that_sends_nothing_does_not_delay_the_end_for_long(monkeypatch):
    monkeypatch.setattr(native_server, "_JOIN_S", 0.2)
    reasons = []

    class Trace:
        def skipped(self, name, reason):
            reasons.append(reason)

    server = NativeServer((), 1, Trace(), None, lambda _: {}, api=CudaApi)
    server.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(server.name.replace("@", "\0", 1))
        while not server._processes:
            time.sleep(0.01)
        assert server.finish() == ()

    assert reasons == ["it did not answer at the end"]
    assert not server._processes[0][1].is_alive()


def test_a_connection_of_another_version_is_closed():
    server = NativeServer((), 1, None, None, lambda _: {}, api=CudaApi)
    server.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(server.name.replace("@", "\0", 1))
        native_protocol.send(stranger, NativeMessage(MessageKind.HELLO, native_protocol.VERSION + 1, 90, 1))
        stranger.settimeout(10)
        assert stranger.recv(100) == b""

    assert server.finish() == ()
