"""Fixtures for tests in the NPU lab: one virtual machine per kernel for the whole session, with many traces in each."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from accel_magic import errors
from accel_magic.api.probe_trace import finish
from accel_magic.errors import MachineError
from accel_magic.lab import image, level_zero, npu
from accel_magic.lab import snapshot as lab_snapshot
from accel_magic.lab.image import snapshots
from accel_magic.lab.vm.lab import Lab
from accel_magic.lab.vm.lab_settings import Settings
from accel_magic.recording import handover
from tests.support.paths import ROOT
from tests.support.thorough import THOROUGH

GUEST = Path(__file__).with_name("guest")
KERNELS = ("6.12", "6.18", "7.2") if THOROUGH else ("7.2",)
"""The default kernel, 6.12, is also booted by the tests of commands and of the Jupyter kernel."""
DEADLINE_S = 3 * 3600.0
"""For a guest that serves many tests; no test should reach it."""
ANSWER_S = 240.0
"""Limit for anything in a guest; under emulation on a busy machine, a trace of seconds takes a minute."""
TEST_S = 1200
IMPORTED = ("accel_magic.lab.npu", "accel_magic.api.doctor.devices")
"""What Python scripts find imported in a guest."""
LIVE_TESTS = ("test_columns.py", "test_static_probes.py", "test_latency.py", "test_counts.py")
LIVE_NAMES = "columns_of or filter_on or by_process or visits or recursive or fields"


def pytest_collection_modifyitems(items):
    """Give each test enough time for emulation."""
    for item in items:
        if Path(__file__).parent in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TEST_S))


def build_image(kernel):
    """Build the image; skip the test if that is impossible, or fail it with ACCEL_MAGIC_REQUIRE_LAB=1."""
    try:
        return image.build(kernel)
    except MachineError as error:
        if os.environ.get("ACCEL_MAGIC_REQUIRE_LAB") == "1":
            pytest.fail(f"cannot build the lab, which is required: {error}")
        pytest.skip(f"cannot build the lab: {error}")


def build_level_zero():
    """Build Level Zero; skip or fail the test if that is impossible, like `build_image`."""
    try:
        image.build_level_zero()
        return level_zero.find()
    except MachineError as error:
        if os.environ.get("ACCEL_MAGIC_REQUIRE_LAB") == "1":
            pytest.fail(f"cannot build Level Zero, which is required: {error}")
        pytest.skip(f"cannot build Level Zero: {error}")


@pytest.fixture(scope="session")
def snapshot(image_of):
    """The snapshot of the default kernel's lab."""
    image_of(image.DEFAULT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(snapshots.VARIABLE, "use")
        try:
            return lab_snapshot.build()
        except MachineError as error:
            if os.environ.get("ACCEL_MAGIC_REQUIRE_LAB") == "1":
                pytest.fail(f"cannot make a snapshot of the lab, which is required: {error}")
            pytest.skip(f"cannot make a snapshot of the lab: {error}")


@pytest.fixture
def use_snapshots(snapshot, monkeypatch):
    """Labs of this test start from the snapshot."""
    monkeypatch.setenv(snapshots.VARIABLE, "use")
    return snapshot


@dataclass(frozen=True)
class Output:
    """Exit status and output of a traced command."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self):
        assert self.status == 0, self.stderr
        return json.loads(self.stdout)


class Guest:
    """A lab with a process that traces commands on request."""

    def __init__(self, kernel, imported=IMPORTED, **settings):
        self.kernel = kernel
        self.lab = Lab(Settings(kernel=kernel, **{"deadline_s": DEADLINE_S, **settings})).start()
        self._answers = queue.Queue()
        self._rest = b""
        self._errors = []
        self._numbers = itertools.count()
        self._tracer = self.lab.popen([sys.executable, str(GUEST / "tracer.py"), *imported], on_output=self._take)

    def _take(self, stream, data):
        if stream == 2:
            self._errors.append(data)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._answers.put(json.loads(line))

    @property
    def alive(self):
        return self._tracer.poll() is None and not self.lab._guest.connection.gone.is_set()

    def trace(self, *probes, command, one_by_one=False, timeout=ANSWER_S, **options):
        """Trace a command; the result's `value` is its `Output`. Raises the errors of the guest's side."""
        target = self.lab.exchange / f"recording-{next(self._numbers)}"
        output = self._ask(
            timeout, target=str(target), probes=probes, options=options, command=command, one_by_one=one_by_one
        )
        return finish(handover.read(target), output, None)

    def script(self, path, *arguments, timeout=ANSWER_S):
        """Run a Python script that must succeed, in a process that has the tracer's imports; returns its output."""
        return self._python(timeout, path, *arguments)

    def python(self, text, *arguments):
        """Run the text of a script in the same way."""
        return self._python(ANSWER_S, "-c", text, *arguments)

    def _python(self, timeout, *arguments):
        done = self._ask(timeout, target=None, command=[sys.executable, *arguments], one_by_one=False)
        assert done.status == 0, done.stderr
        return done.stdout

    def _ask(self, timeout, *, command, **request):
        self._tracer.write(json.dumps({**request, "command": list(map(str, command))}).encode() + b"\n")
        answer = self._answer(timeout)
        if "error" in answer:
            raise getattr(errors, answer.pop("error"))(**answer)
        return Output(**answer)

    def _answer(self, timeout):
        """Wait for the tracer's answer. If the guest has ended, the lab's error with the reason is raised."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                return self._answers.get(timeout=1)
            with contextlib.suppress(TimeoutError):
                status = self.lab.wait(self._tracer, 0)
                pytest.fail(f"the guest's tracer ended with {status}: {b''.join(self._errors).decode()}")
        self._tracer.send_signal(signal.SIGKILL)
        pytest.fail(
            f"the guest runs but did not answer within {timeout:g} s: {b''.join(self._errors).decode()}\n"
            f"{self.lab.console()[-3000:]}"
        )

    def run(self, *command, **options):
        """Run a command that must succeed; returns its output."""
        done = self.lab.run(list(map(str, command)), timeout=ANSWER_S, **options)
        assert done.status == 0, done.stderr.decode()
        return done.text

    def functions(self, pattern=None):
        """The driver's functions that the guest's kernel lists as traceable."""
        lines = self.run("grep", "-F", "[intel_vpu]", "/sys/kernel/tracing/available_filter_functions").splitlines()
        names = [line.split()[0] for line in lines]
        return [name for name in names if pattern is None or name.startswith(pattern)]

    def close(self):
        self.lab.close()


class _Holder:
    """The guest of one kernel, restarted after a test has killed it."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.guest = None

    def get(self):
        if self.guest is None or not self.guest.alive:
            self.close()
            self.guest = Guest(self.kernel)
        return self.guest

    def close(self):
        if self.guest is not None:
            self.guest.close()


@pytest.fixture(scope="session")
def image_of():
    """Build the image of a kernel."""
    return build_image


@pytest.fixture(scope="session")
def load_program(tmp_path_factory):
    """The workload in C."""
    return npu.compile_load(tmp_path_factory.mktemp("load"))


@pytest.fixture(scope="session")
def calls_program(tmp_path_factory):
    """The live tests' program with threads that make system calls: `calls THREADS CALLS`."""
    program = tmp_path_factory.mktemp("programs") / "calls"
    source = ROOT / "tests" / "live" / "programs" / "calls.c"
    subprocess.run(["gcc", "-O2", "-pthread", "-static", "-o", program, source], check=True)
    return program


@pytest.fixture(scope="session")
def api():
    """Level Zero for the lab."""
    return build_level_zero()


@pytest.fixture(scope="session", params=KERNELS)
def _holder(request, load_program, calls_program):
    build_image(request.param)
    # A guest only has what was built before it started.
    if any("api" in item.fixturenames for item in request.session.items):
        with contextlib.suppress(pytest.skip.Exception):
            build_level_zero()
    holder = _Holder(request.param)
    _holders.append(holder)
    yield holder
    holder.close()


_holders = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem):
    """End the guests with the last test in this folder, because later tests measure time on this machine."""
    yield
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        while _holders:
            _holders.pop().close()


@pytest.fixture
def guest(_holder):
    """A running guest of each kernel in turn, with its NPU working."""
    return _holder.get()


@pytest.fixture(scope="session")
def load(load_program):
    """`load(jobs=20, processes=1)` is the command of a workload; `Load.from_json` parses its output."""

    def command(**options):
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        return [str(load_program), "--json", *words]

    return command


@pytest.fixture(scope="session")
def counted(load_program):
    """`counted("count_calls", ("ivpu_*",), command)`: runs the command under a counting program in the guest."""
    return lambda program, arguments, command: [
        sys.executable,
        str(GUEST / f"{program}.py"),
        *arguments,
        "--",
        *command,
    ]


@pytest.fixture(scope="session")
def live_tests():
    """Command that runs some live tests in a guest: every kind of probe, filter and column."""
    folder = ROOT / "tests" / "live"
    options = ["-q", "-p", "no:cacheprovider", "-o", "timeout=120"]
    return [sys.executable, "-m", "pytest", *options, *(str(folder / name) for name in LIVE_TESTS), "-k", LIVE_NAMES]


@pytest.fixture(scope="session")
def hits_of():
    """Hits by function of a result."""
    return lambda result: result.counts.groupby("function")["hits"].sum().to_dict()


@pytest.fixture
def collect():
    """Call a function in a thread; `collect(f)()` waits and returns its value or raises its error."""

    def start(function):
        box = {}

        def work():
            try:
                box["value"] = function()
            except BaseException as error:  # noqa: BLE001 - for the one who waits
                box["error"] = error

        thread = threading.Thread(target=work, daemon=True)
        thread.start()

        def wait(timeout=ANSWER_S):
            thread.join(timeout)
            assert not thread.is_alive(), "it is still at work"
            if "error" in box:
                raise box["error"]
            return box["value"]

        return wait

    return start
