"""Models on the emulated NPU without a guest: jobs load and execute them with OpenVINO, in a process of its own."""

from __future__ import annotations

import os
import select
import signal
import struct
import time
from pathlib import Path

import numpy as np
import pytest

from accel_magic.lab.device import commands
from accel_magic.lab.device.commands import AWAIT, BARRIER, EXECUTE, LOAD, QUERY, UNLOAD
from accel_magic.lab.device.models import LIMITS_US
from accel_magic.lab.models import protocol
from tests.unit.lab.device.test_commands import ABORTED, PARSING_ERROR, SUCCESS, Jobs, program

pytest.importorskip("openvino")
from tests.support import npu_models

pytestmark = pytest.mark.component

BLOB, ANSWER, INPUT, OUTPUT = 0x1000000, 0x2000000, 0x3000000, 0x3100000
ANSWER_SIZE = 0x4000
LIMIT_S = 120.0


class Inference(Jobs):
    """Jobs whose models are executed meanwhile; the device's clock follows the real one."""

    def end(self):
        """The status of the job that is running."""
        models, until = self.driver.npu.models, time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            fd = models.fileno()
            if fd is not None and select.select([fd], [], [], 0.02)[0]:
                models.receive()
            if (status := self.wait(20_000)) is not None:
                return status
        raise AssertionError("the job does not end")

    def status(self, *listed):
        self.start(program(*listed))
        return self.end()

    def load(self, content, graph=1, *, kind=LOAD):
        """Load a model; returns the answer's status and content."""
        self.place(content)
        assert self.status((kind, graph, [(BLOB, len(content)), (ANSWER, ANSWER_SIZE)])) == SUCCESS
        while (answer := self.answer())[0] == commands.NOT_READY:
            assert self.status((AWAIT, graph, [(ANSWER, ANSWER_SIZE)])) == SUCCESS
        return answer

    def place(self, content):
        """Write a blob to the NPU's memory."""
        if (1, BLOB) not in self.driver.pages:
            self.driver.map(BLOB, 0x10000, 1)
            self.driver.map(ANSWER, ANSWER_SIZE, 1)
            self.driver.map(INPUT, 0x2000, 1)
            self.driver.map(OUTPUT, 0x2000, 1)
        self.driver.vpoke(BLOB, content, 1)

    def answer(self):
        status, size = commands.ANSWER.unpack(self.driver.vpeek(ANSWER, commands.ANSWER.size, 1))
        return status, self.driver.vpeek(ANSWER + commands.ANSWER.size, size, 1)

    def infer(self, array, graph=1, *, output=512):
        self.driver.vpoke(INPUT + 0xF00, array.tobytes(), 1)
        return self.status((EXECUTE, graph, [(INPUT + 0xF00, array.nbytes), (OUTPUT + 0xFF0, output)]))

    def output(self, size=512):
        return np.frombuffer(self.driver.vpeek(OUTPUT + 0xFF0, size, 1), np.float32).reshape(2, -1)


@pytest.fixture
def jobs(driver):
    return Inference(driver)


@pytest.fixture
def given():
    return np.random.default_rng(2).standard_normal((2, 64), np.float32)


@pytest.fixture
def blob(tmp_path):
    return npu_models.blob(npu_models.affine(), tmp_path)


def test_a_model_is_loaded_described_and_executed(jobs, blob, given):
    status, described = jobs.load(blob)

    assert status == commands.DONE
    assert commands.sizes_of(described) == commands.Sizes((512,), (512,))
    arguments, name_size = protocol.GRAPH.unpack_from(described)
    name_end = protocol.GRAPH.size + name_size
    assert arguments == 2
    assert described[protocol.GRAPH.size : name_end].rstrip(b"\0") == b"affine"
    *numbers, names, text = protocol.ARGUMENT.unpack_from(described, name_end)
    assert (numbers[:8], names) == ([protocol.INPUT, 1, 5, 2, 512, 2, 64, 0], 1)
    at = name_end + protocol.ARGUMENT.size
    assert described[at : at + text].rstrip(b"\0").split(b"\0") == [b"x", b"x", b"x"]
    for sign in (1, -1):
        assert jobs.infer(sign * given) == SUCCESS
        (truth,) = npu_models.expected(npu_models.affine(), sign * given)
        assert np.abs(jobs.output() - truth).max() <= 1e-5
    assert dict(jobs.driver.npu.statistics.models) == {"loaded": 1, "queried": 0, "executed": 2, "failed": 0}
    assert jobs.driver.guest_faults == {}


def test_models_are_told_apart_and_dropped(jobs, blob, given, tmp_path):
    jobs.load(blob, 1)
    (smaller := tmp_path / "smaller").mkdir()
    jobs.load(npu_models.blob(npu_models.affine(16), smaller), 2)

    assert jobs.infer(given, 1) == SUCCESS
    assert jobs.infer(given[:, :16].copy(), 2, output=128) == SUCCESS
    (truth,) = npu_models.expected(npu_models.affine(16), given[:, :16])
    assert np.abs(jobs.output(128) - truth).max() <= 1e-5
    assert jobs.status((UNLOAD, 1, [])) == SUCCESS
    assert jobs.infer(given, 1) == ABORTED
    assert jobs.infer(given[:, :16].copy(), 2, output=128) == SUCCESS


def test_the_layers_that_can_be_executed_are_named(jobs, blob):
    status, names = jobs.load(blob, 1, kind=QUERY)

    assert status == commands.DONE
    assert {b"x", b"y"} <= set(names[1:-1].split(b"><"))
    assert jobs.driver.npu.statistics.models["queried"] == 1


def test_times_of_layers_are_written_to_their_slot(jobs, given, tmp_path):
    jobs.load(npu_models.blob(npu_models.affine(), tmp_path, 'PERF_COUNT="YES"'))
    slot = 0x4000000
    jobs.driver.map(slot, (protocol.SLOT_SIZE + 0xFFF) & ~0xFFF, 1)
    jobs.driver.vpoke(INPUT, given.tobytes(), 1)

    assert jobs.status((EXECUTE, 1, [(INPUT, 512), (OUTPUT, 512), (slot, protocol.SLOT_SIZE)])) == SUCCESS

    layers, _ = protocol.LAYERS.unpack(jobs.driver.vpeek(slot, protocol.LAYERS.size, 1))
    assert 1 <= layers <= 6
    for number in range(layers):
        at = slot + protocol.LAYERS.size + number * protocol.LAYER.size
        name, kind, status, _, took, index, *_ = protocol.LAYER.unpack(jobs.driver.vpeek(at, protocol.LAYER.size, 1))
        assert name.rstrip(b"\0")
        assert kind.rstrip(b"\0")
        assert (status, index, took > 0) == (3, number, True)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda blob: b"?" + blob[1:], b"not a blob"),
        (lambda blob: blob[:-9], b"not a blob"),
        (lambda blob: blob.replace(b"<layers>", b"<lawyers>"), b"damaged"),
        (lambda blob: blob[:30], b"not a blob"),
        (lambda blob: blob.replace(b'"MatMul"', b'"MotMul"'), b"MotMul"),
    ],
)
def test_a_damaged_model_is_answered_with_what_is_wrong(jobs, blob, given, damage, message):
    status, text = jobs.load(damage(blob))

    assert status == commands.FAILED
    assert message in text
    assert jobs.infer(given) == ABORTED
    assert jobs.load(blob)[0] == commands.DONE
    assert jobs.infer(given) == SUCCESS


@pytest.mark.parametrize("size", [508, 516, 0])
def test_an_inference_with_arguments_of_another_size_is_a_fault(jobs, blob, given, size):
    jobs.load(blob)

    assert jobs.infer(given, output=size) == PARSING_ERROR
    assert jobs.driver.guest_faults == {"commands": 1}
    assert jobs.infer(given) == SUCCESS


def test_unmapped_inputs_and_outputs_fail_only_their_job(jobs, blob, given):
    jobs.load(blob)

    assert jobs.status((EXECUTE, 1, [(0x70000000, 512), (OUTPUT, 512)])) == PARSING_ERROR
    assert jobs.status((EXECUTE, 1, [(INPUT, 512), (0x70000000, 512)])) == PARSING_ERROR
    assert jobs.driver.guest_faults == {"translation": 2}
    assert jobs.infer(given) == SUCCESS


def test_the_end_of_the_process_aborts_its_inference_and_another_model_starts_a_new_one(jobs, blob, given, monkeypatch):
    jobs.load(blob)
    process = jobs.driver.npu.models._process
    os.kill(process.pid, signal.SIGSTOP)
    jobs.start(program((EXECUTE, 1, [(INPUT, 512), (OUTPUT, 512)])))
    os.kill(process.pid, signal.SIGKILL)

    assert jobs.end() == ABORTED
    assert jobs.infer(given) == ABORTED
    assert jobs.load(blob, 2)[0] == commands.DONE
    assert jobs.infer(given, 2) == SUCCESS
    assert jobs.driver.npu.models._process.pid != process.pid


def test_an_inference_that_takes_too_long_is_aborted(jobs, blob, given):
    jobs.load(blob)
    process = jobs.driver.npu.models._process
    os.kill(process.pid, signal.SIGSTOP)
    jobs.start(program((EXECUTE, 1, [(INPUT, 512), (OUTPUT, 512)])))

    assert jobs.wait(LIMITS_US[protocol.EXECUTE] - 1) is None
    assert jobs.wait(1) is None
    assert jobs.wait(500) == ABORTED
    assert process.poll() == -signal.SIGKILL


def test_a_job_does_not_wait_longer_than_the_driver_for_a_model(jobs, blob, given):
    jobs.load(blob)
    os.kill(jobs.driver.npu.models._process.pid, signal.SIGSTOP)
    jobs.start(program((LOAD, 2, [(BLOB, len(blob)), (ANSWER, ANSWER_SIZE)])))

    assert jobs.wait(commands.HOLD_US - 1) is None
    jobs.driver.advance(1)
    assert jobs.wait(0) == SUCCESS
    assert jobs.answer() == (commands.NOT_READY, b"")
    os.kill(jobs.driver.npu.models._process.pid, signal.SIGCONT)
    while jobs.answer()[0] == commands.NOT_READY:
        assert jobs.status((AWAIT, 2, [(ANSWER, ANSWER_SIZE)])) == SUCCESS
    assert jobs.answer()[0] == commands.DONE
    assert jobs.infer(given, 2) == SUCCESS


def test_a_model_is_loaded_although_the_npu_sleeps_when_the_process_is_ready(jobs, blob, given):
    jobs.place(blob)
    jobs.start(program((LOAD, 1, [(BLOB, len(blob)), (ANSWER, ANSWER_SIZE)])))
    assert jobs.wait(commands.HOLD_US) is None  # the process is still starting
    assert jobs.wait(0) == SUCCESS
    assert jobs.answer() == (commands.NOT_READY, b"")
    jobs.driver.reset_npu()
    jobs.driver.vpoke(BLOB, bytes(len(blob)), 1)
    jobs.driver.npu.timers.run_due()
    while not jobs.driver.npu.models.has(1 << 32 | 1):
        assert select.select([jobs.driver.npu.models.fileno()], [], [], LIMIT_S)[0]
        jobs.driver.npu.models.receive()

    assert jobs.driver.guest_faults == {}
    assert jobs.driver.npu.statistics.models["loaded"] == 1


def test_a_reset_during_an_inference_drops_its_outputs(jobs, blob, given):
    jobs.load(blob)
    jobs.infer(given)
    before = jobs.output().copy()
    process = jobs.driver.npu.models._process
    os.kill(process.pid, signal.SIGSTOP)
    jobs.driver.vpoke(INPUT, (-given).tobytes(), 1)
    jobs.start(program((EXECUTE, 1, [(INPUT, 512), (OUTPUT + 0xFF0, 512)])))
    jobs.driver.ask(0x1100, struct.pack("<II", 0, 0))  # ENGINE_RESET
    os.kill(process.pid, signal.SIGCONT)

    assert jobs.run((BARRIER, 0, [])) == SUCCESS
    assert jobs.infer(given) == SUCCESS  # after the one that was given up
    assert np.array_equal(jobs.output(), before)
    assert jobs.driver.npu.statistics.models["executed"] == 3


def test_models_of_a_released_context_are_dropped(jobs, blob, given):
    jobs.load(blob)
    assert jobs.driver.ask(0x110E, struct.pack("<II", 1, 0))[0] == 0  # SSID_RELEASE
    jobs.queue = jobs.driver.register(3)  # of the next context, which gets the same number

    assert jobs.infer(given) == ABORTED
    assert jobs.load(blob)[0] == commands.DONE
    assert jobs.infer(given) == SUCCESS


def test_no_model_reads_the_memory_of_its_process_where_no_secrets_are(jobs, blob, monkeypatch):
    monkeypatch.setenv("CANARY", "of the lab's user")
    jobs.load(blob)
    process = Path(f"/proc/{jobs.driver.npu.models._process.pid}")
    stack = next(line for line in (process / "maps").read_text().splitlines() if line.endswith("[stack]"))
    end = int(stack.split()[0].partition("-")[2], 16)

    status, text = jobs.load(npu_models.of_memory(end - 640), 2)
    assert (status, b"XML" in text) == (commands.FAILED, True)
    assert b"CANARY" not in (process / "environ").read_bytes()
    assert jobs.load(blob, 3)[0] == commands.DONE


def test_the_process_can_neither_open_files_nor_sockets_and_ends_with_the_device(jobs, blob):
    jobs.load(blob)
    pid = jobs.driver.npu.models._process.pid
    status = Path(f"/proc/{pid}/status").read_text()

    assert "Seccomp:\t2\n" in status
    assert "NoNewPrivs:\t1\n" in status
    assert "CapPrm:\t0000000000000000\n" in status
    streams = {str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in range(3)}
    others = {str(each.readlink()).partition(":")[0] for each in Path(f"/proc/{pid}/fd").iterdir()} - streams
    assert others <= {"/dev/null", "socket", "/memfd"}
    jobs.driver.server.close()
    assert not Path(f"/proc/{pid}").exists()
