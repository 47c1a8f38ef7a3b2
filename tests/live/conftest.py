"""Fixtures for tests that trace the running kernel: programs that count their own calls, and notebooks."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.kernel import features
from tests.support import fresh_python
from tests.support.kernel_objects import kernel_objects

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
        command = [sys.executable, "-c", script, *map(str, arguments)]
        if before:
            done = subprocess.run([*before, *command], capture_output=True, text=True, timeout=timeout, check=False)
        else:
            done = fresh_python.run(command, timeout=timeout)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_


@pytest.fixture(scope="session")
def hits_of():
    """Hits of a result by function."""
    return lambda result: result.counts.groupby("function")["hits"].sum().to_dict()


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
def notebook(kernels):
    """A Jupyter kernel with the extension loaded: `notebook(code)` runs a cell and returns an `Answer`."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()
    run_cell = Notebook(manager, client)
    assert run_cell("%load_ext accel_magic").status == "ok"
    yield run_cell
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture(scope="session")
def kernels():
    """Kernels of Jupyter start in a fraction of their time."""
    with pytest.MonkeyPatch.context() as patch:
        fresh_python.kernels(patch)
        yield


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
