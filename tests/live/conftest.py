"""Fixtures for tests that trace the running kernel: programs that count their own calls, and notebooks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import re
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.kernel import features, scope

PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture(scope="session", autouse=True)
def _tracing():
    """Skip if this machine cannot trace; with ACCEL_MAGIC_REQUIRE_LIVE=1, fail instead."""
    try:
        features.require_tracing()
    except MachineError as error:
        if os.environ.get("ACCEL_MAGIC_REQUIRE_LIVE") == "1":
            pytest.fail(f"live tests are required here, and tracing is impossible: {error}")
        pytest.skip(f"tracing is impossible here: {error}")


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Compile `programs/NAME.c`; `build("calls")` returns the program's path."""
    folder = tmp_path_factory.mktemp("programs")
    built = {}

    def compile_(name, *flags, output=None):
        path = folder / (output or name)
        if path not in built:
            source = PROGRAMS / f"{name}.c"
            subprocess.run(["gcc", "-O2", "-pthread", *flags, "-o", path, source], check=True)
            built[path] = True
        return path

    return compile_


@pytest.fixture(scope="session")
def run():
    """Run a program and return what it printed: `{"leaf": 400}`; a repeated word gives a list."""

    def run_(program, *arguments):
        done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=True)
        found = defaultdict(list)
        for line in done.stdout.splitlines():
            name, value = line.split()
            found[name].append(int(value))
        return {name: values[0] if len(values) == 1 else values for name, values in found.items()}

    return run_


@pytest.fixture(scope="session")
def python():
    """Run a Python script in a separate process; return its output. The script must succeed."""

    def run_(script, *arguments, before=(), timeout=240):
        command = [*before, sys.executable, "-c", script, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_


@pytest.fixture(scope="session")
def hits_of():
    """Hits of a result by function."""
    return lambda result: result.counts.groupby("function")["hits"].sum().to_dict()


_BPF, _INFO = 321, 15
_NEXT = {"program": (11, 13, 64), "map": (12, 14, 24)}  # next-id command, fd-by-id command, offset of the name
_LINK_NEXT, _LINK_BY_ID = 31, 30


def _bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    result = ctypes.CDLL(None, use_errno=True).syscall(_BPF, command, buffer, len(buffer))
    return (result, buffer.raw) if result >= 0 else (-ctypes.get_errno(), buffer.raw)


def _objects(next_command, open_command):
    """(id, bpf_*_info as bytes) of every object of one kind in the kernel."""
    found, id_ = [], 0
    while True:
        result, raw = _bpf(next_command, struct.pack("<II", id_, 0))
        if result < 0:
            return found
        id_ = struct.unpack_from("<I", raw, 4)[0]
        descriptor, _ = _bpf(open_command, struct.pack("<I", id_))
        if descriptor < 0:
            continue  # it exited meanwhile
        info = ctypes.create_string_buffer(256)
        _bpf(_INFO, struct.pack("<IIQ", descriptor, len(info), ctypes.addressof(info)))
        os.close(descriptor)
        found.append((id_, info.raw))


_MARK = "ACCEL_MAGIC_LIVE_TESTS"
_HELD = re.compile(r"^(prog|map|link)_id:\s+(\d+)$", re.MULTILINE)
os.environ[_MARK] = str(os.getpid())  # inherited by everything that these tests start


_ours = set()
"""(kind, id) of all that these tests were ever seen to hold open; the kernel gives no id out twice for long."""


def _held():
    """(kind, id) of what this process and those that it started hold open: others may be tracing here too, unseen."""
    mark = f"{_MARK}={os.getpid()}".encode()
    tree = scope.tree(os.getpid())  # forked children show the environment with which this process was started
    held = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if int(process.name) not in tree and mark not in (process / "environ").read_bytes():
                continue
            entries = list((process / "fdinfo").iterdir())
        except OSError:
            continue  # it exited meanwhile
        for entry in entries:
            with contextlib.suppress(OSError):  # closed meanwhile, such as the descriptor of the listing
                found = _HELD.findall(entry.read_text())
                held |= {({"prog": "program"}.get(kind, kind), int(id_)) for kind, id_ in found}
    return held


def kernel_objects():
    """Our programs and maps in the kernel, and links of our programs: sets of (kind, id)."""
    _ours.update(_held())
    found = set()
    for kind, (next_command, open_command, name_at) in _NEXT.items():
        for id_, info in _objects(next_command, open_command):
            if info[name_at : name_at + 16].startswith(b"am_"):
                found.add((kind, id_))
    for id_, info in _objects(_LINK_NEXT, _LINK_BY_ID):
        program = struct.unpack_from("<I", info, 8)[0]
        if ("program", program) in found:
            found.add(("link", id_))
    return found & _ours


def _mappings():
    """Number of BPF maps that this process has mapped."""
    return Path("/proc/self/maps").read_text().count("bpf-map")


@pytest.fixture(scope="session")
def in_kernel():
    """Query the kernel for our objects: a function that returns a set of (kind, id)."""
    return kernel_objects


@pytest.fixture
def left_behind(in_kernel):
    """Objects added to the kernel since the start of the test; waits up to 60 s until there are none of `kinds`."""
    before, mapped = in_kernel(), _mappings()

    def wait(*kinds):
        more = {item for item in in_kernel() - before if not kinds or item[0] in kinds}
        end = time.monotonic() + 60
        while more and time.monotonic() < end:
            time.sleep(0.02)
            more &= in_kernel()
        if not kinds and _mappings() > mapped:  # mappings keep maps alive without descriptors
            more.add(("mapping", _mappings() - mapped))
        return more

    return wait


@pytest.fixture
def unshare():
    """`unshare(*flags)` returns a command prefix for new namespaces; skips if creating them is not permitted."""

    def command(*flags):
        done = subprocess.run(["unshare", *flags, "true"], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no new namespaces in this container or chroot: {done.stderr.strip()}")
        return ("unshare", *flags)

    return command


@pytest.fixture
def nothing_attached(left_behind):
    """Fail the test if it leaves any of our objects in the kernel."""
    yield
    assert left_behind() == set()


@pytest.fixture(scope="module")
def notebook():
    """A Jupyter kernel with the extension loaded: `notebook(code)` runs a cell and returns an `Answer`."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()
    run_cell = Notebook(manager, client)
    assert run_cell("%load_ext accel_magic").status == "ok"
    yield run_cell
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@dataclass
class Answer:
    """A Jupyter kernel's reply to one cell: `outputs` has the contents of its messages by type, in order."""

    status: str
    reply: dict
    messages: list  # (type, content, when)

    def of(self, *kinds):
        return [content for kind, content, _ in self.messages if kind in kinds]

    @property
    def text(self):
        """Everything printed or shown as text."""
        shown = self.of("execute_result", "display_data")
        return "".join(content["text"] for content in self.of("stream")) + "\n".join(
            content["data"].get("text/plain", "") for content in shown
        )


class Notebook:
    """A kernel and its client."""

    def __init__(self, manager, client):
        self.manager, self.client = manager, client

    def __call__(self, code, *, interrupt_after=None, on_message=None):
        id_ = self.client.execute(code)
        messages, timer = [], None
        if interrupt_after is not None:
            timer = threading.Timer(interrupt_after, self.manager.interrupt_kernel)
            timer.start()
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != id_:
                continue
            kind, content = message["msg_type"], message["content"]
            messages.append((kind, content, time.monotonic()))
            if on_message is not None:
                on_message(kind, content)
            if kind == "status" and content["execution_state"] == "idle":
                break
        if timer is not None:  # a late interrupt must not hit the next cell
            timer.cancel()
            timer.join()
        reply = self._reply(id_, 60 if interrupt_after is None else 20)
        return Answer(reply["status"], reply, messages)

    def _reply(self, id_, timeout):
        """The reply to a request. An interrupt that hits ipykernel's own code prevents it: status "none"."""
        while True:
            try:
                reply = self.client.get_shell_msg(timeout=timeout)
            except queue.Empty:
                return {"status": "none"}
            if reply["parent_header"].get("msg_id") == id_:
                return reply["content"]

    @property
    def pid(self):
        return self.manager.provisioner.process.pid
