"""Two labs as the nodes of one trace: each has its own kernel, driver and device, and a clock of its own."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import queue
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from accel_magic import ProbeError, trace
from accel_magic.cluster import clock
from accel_magic.cluster.adapters import LabAdapter
from accel_magic.cluster.remote import RemoteCall
from accel_magic.lab.npu import Load
from accel_magic.lab.vm.lab import Lab
from accel_magic.lab.vm.lab_settings import Settings
from tests.lab.conftest import ANSWER_S, DEADLINE_S, GUEST, build_image
from tests.support.errors import raises

pytestmark = pytest.mark.thorough  # minutes, and a second virtual machine
one_kernel = pytest.mark.parametrize("_holder", ["7.2"], indirect=True)

OTHER = "6.12"
S, MS = 10**9, 10**6
DRIFT_PPM = 500
"""The most that the kernel corrects a clock's frequency by."""
LASTS_S = 8
BURSTS, PINGS = 4, 200
LATE_S = 0.010


@pytest.fixture(scope="module")
def other():
    """A second lab."""
    build_image(OTHER)
    with Lab(Settings(kernel=OTHER, deadline_s=DEADLINE_S)) as lab:
        yield lab


@pytest.fixture
def both(guest, other):
    """Both labs, by the names of their nodes."""
    return {f"lab-{guest.kernel}": guest.lab, f"lab-{OTHER}": other}


def ioctls(outcome):
    """Calls of the driver's ioctl functions, as counted by the workload."""
    return {name: calls for name, calls in outcome.functions.to_dict().items() if name.startswith("ivpu_")}


@one_kernel
def test_the_drivers_of_two_labs_are_traced_as_two_nodes(both, load, collect, tmp_path):
    jobs = dict(zip(both, (7, 12), strict=True))

    with trace("latency:intel_vpu:ivpu_*_ioctl", on=list(both.values()), save=tmp_path / "both.parquet") as t:
        runs = {name: collect(lambda lab=lab, n=jobs[name]: lab.run(load(jobs=n))) for name, lab in both.items()}
        outcomes = {name: Load.from_json(wait().text) for name, wait in runs.items()}
    result = t.result

    assert result.nodes["problem"].tolist() == [""] * 2
    for name, lab in both.items():
        expected = ioctls(outcomes[name])
        own = result.part(name)
        hits = own.counts.groupby("function")["hits"].sum()
        assert {function: calls for function, calls in hits.to_dict().items() if calls} == expected
        assert (outcomes[name].ok, hits["ivpu_bo_wait_ioctl"]) == (jobs[name], jobs[name])
        assert own.lost == 0
        assert len(own.events) == sum(expected.values())
        row = result.nodes.set_index("node").loc[name]
        assert (row["host"], row["hits"], row["kernel"]) == (name, sum(expected.values()), lab.guest.release)
        assert "emulated" in row["device"]
    totals = result.counts.groupby("function")["hits"].sum()
    assert totals["ivpu_bo_wait_ioctl"] == sum(jobs.values())
    assert result.hits == result.nodes["hits"].sum() == len(result.events)
    assert result.latency["count"].sum() == result.hits
    assert "NPU LAB" in str(result)
    assert "NPU LAB" in result._repr_mimebundle_()["text/html"]
    check_order(result)


def check_order(result):
    """Events of different machines have an order only if they are further apart than both errors."""
    errors = result.clock.set_index("node")["error_ns"]
    assert result.clock["how"].tolist() == ["exchanges at start and end"] * 2
    assert (errors > 0).all()
    events = result.events[["time_ns", "node"]].astype({"node": str}).reset_index(drop=True)
    seen = set()
    assert len(events)
    for first, a in events.iloc[:100].iterrows():
        for second in (first + 1, first + 5, len(events) - 1):
            b = events.iloc[second]
            apart = b["time_ns"] - a["time_ns"]
            if a["node"] == b["node"]:
                expected = "before" if apart else "unknown"
            else:
                expected = "before" if apart > errors.sum() else "unknown"
                seen.add(expected)
            assert result.order(first, second) == expected
    assert seen


@one_kernel
def test_in_labs_everything_is_traced(both):
    with raises("cluster.scope", ProbeError, match="scope='self'") as caught:
        trace("intel_vpu:ivpu_*_ioctl", on=list(both.values()), scope="self")
    assert caught.value.fix == "use scope='all'"


@pytest.fixture(scope="session")
def shared_clock(tmp_path_factory):
    """The program that reads the guest's clock when asked through shared memory."""
    program = tmp_path_factory.mktemp("programs") / "shared_clock"
    subprocess.run(["gcc", "-O2", "-static", "-o", program, GUEST / "shared_clock.c"], check=True)
    return program


@contextlib.contextmanager
def memory_of(lab):
    """The guest's memory, which QEMU shares with the emulated device."""
    keeper = lab._guest.keeper.pid
    children = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    for descriptor in (one for pid in children for one in Path(f"/proc/{pid}/fd").iterdir()):
        if "memfd:memory-backend" in str(descriptor.readlink()):
            with descriptor.open("r+b") as file, mmap.mmap(file.fileno(), lab.settings.memory_mib << 20) as memory:
                yield memory
            return
    pytest.fail("QEMU has no file with the guest's memory")


class Truth:
    """Compares the guest's clock with this machine's through memory, in microseconds instead of milliseconds."""

    def __init__(self, lab, program):
        self.lab, self.program = lab, program
        self.pings = []
        """The host's clock before, the guest's before and after its system call, the host's after; ns."""

    def burst(self):
        """Ask many times in a row; each time the guest makes one system call."""
        lines = queue.Queue()
        process = self.lab.popen([str(self.program)], on_output=lambda _, data: lines.put(data))
        page = int(lines.get(timeout=ANSWER_S))
        with memory_of(self.lab) as memory:
            words = (ctypes.c_uint64 * 4).from_buffer(memory, page)
            until = time.monotonic() + ANSWER_S
            for number in (*range(1, PINGS + 1), (1 << 64) - 1):
                before = time.monotonic_ns()
                words[0] = number
                while number <= PINGS and words[1] != number:
                    assert time.monotonic() < until
                if number <= PINGS:
                    self.pings.append((before, words[2], words[3], time.monotonic_ns()))
            del words
        assert self.lab.wait(process, ANSWER_S) == 0

    @property
    def narrow(self):
        """The narrowest ping of each burst."""
        bursts = [self.pings[at : at + PINGS] for at in range(0, len(self.pings), PINGS)]
        return [min(burst, key=lambda ping: ping[3] - ping[0]) for burst in bursts]

    @property
    def drift(self):
        """What this machine's clock gains on the guest's, and how far off that may be."""
        first, last = self.narrow[0], self.narrow[-1]
        here = (last[0] + last[3] - first[0] - first[3]) / 2
        there = (last[1] + last[2] - first[1] - first[2]) / 2
        return here / there - 1, (last[3] - last[0] + first[3] - first[0]) / there


SET = """
import ctypes, sys
from accel_magic.cluster.adjtimex import Timex
change = Timex(modes=2, freq=int(sys.argv[1]) << 16)  # ADJ_FREQUENCY, in ppm with 16 fractional bits
assert ctypes.CDLL(None).adjtimex(ctypes.byref(change)) >= 0
"""


@pytest.fixture
def fast(both):
    """A lab whose clock is too fast, at a known rate."""
    other = both[f"lab-{OTHER}"]
    set_ppm = lambda ppm: other.run([sys.executable, "-c", SET, str(ppm)])  # noqa: E731
    assert set_ppm(DRIFT_PPM).status == 0
    yield other
    assert set_ppm(0).status == 0


class LateAnswers(LabAdapter):
    """Answers need much longer than questions: the largest error that a round trip can hide."""

    def submit(self, address, function):
        answer = super().submit(address, function)
        if isinstance(function, RemoteCall) and function.function is clock.answer:
            get = answer.get

            def late():
                value = get()
                time.sleep(LATE_S)
                return value

            answer.get = late
        return answer


def distances(line, truth):
    """How far the guest's mapped times are at least, and at most, from the truth: of the narrowest pings, in ns."""
    pings = np.array(truth.narrow, np.int64)
    early, late = line.to_reference(pings[:, 1]), line.to_reference(pings[:, 2])
    least = np.maximum(np.maximum(early - pings[:, 3], pings[:, 0] - late), 0)
    most = np.maximum(pings[:, 3] - early, late - pings[:, 0])
    return least, most


@one_kernel
def test_a_drifting_clock_is_corrected_within_the_stated_error(fast, shared_clock):
    truth, late = Truth(fast, shared_clock), LateAnswers([fast])
    (node,) = late.nodes()
    with trace("t:syscalls:sys_enter_getsid", on=fast) as t:
        first = late.exchange(node)
        began = time.monotonic()
        for number in range(BURSTS):
            while time.monotonic() < began + number * LASTS_S / (BURSTS - 1):
                time.sleep(0.1)
            truth.burst()
        last = late.exchange(node)
    (part,) = t.result.parts
    drift, within = truth.drift

    # The known rate; the emulated counter that the guest's clock is derived from is off by some ppm itself.
    assert drift == pytest.approx(-DRIFT_PPM * 1e-6, abs=100e-6)
    assert abs(part.clock.drift - drift) <= part.clock.drift_error + within
    events = t.result.events
    times = t.result.recording.start_ns + np.sort(events[events["comm"] == "shared_clock"]["time_ns"].to_numpy())
    pings = np.array(truth.pings, np.int64)
    assert len(times) == len(pings) == BURSTS * PINGS
    error = part.clock.error_ns
    assert (pings[:, 0] - error <= times).all()
    assert (times <= pings[:, 3] + error).all()
    for line in (part.clock, clock.line(first, last)):
        least, most = distances(line, truth)
        assert (least <= line.error_ns).all()
    assert line.error_ns <= 5 * most.max()


@one_kernel
def test_a_lab_that_ends_during_the_trace_is_named_and_the_other_is_whole(both, load):
    alive, ended = both
    with trace("intel_vpu:ivpu_*_ioctl", on=list(both.values()), mode="count") as t:
        for lab in both.values():
            outcome = Load.from_json(lab.run(load(jobs=5)).text)
        both[ended]._guest.keeper.let_go()  # ends QEMU
        assert both[ended]._guest.connection.gone.wait(ANSWER_S)
        outcome = Load.from_json(both[alive].run(load(jobs=6)).text)

    parts = {part.node.name: part for part in t.result.parts}
    assert parts[ended].problem.code == "cluster.node-gone"
    assert ended in parts[ended].problem.what
    assert parts[ended].recording is None
    assert parts[alive].problem is None
    hits = t.result.part(alive).counts.groupby("function")["hits"].sum()
    assert hits["ivpu_bo_wait_ioctl"] == 11
    assert outcome.ok == 6
    assert t.result.hits == hits.sum()
