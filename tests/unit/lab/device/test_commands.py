"""Commands of jobs: copies, clocks, events, and everything a guest can do wrong with them."""

from __future__ import annotations

import contextlib
import struct
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accel_magic.lab.device import commands
from accel_magic.lab.device.commands import (
    AWAIT,
    BARRIER,
    COPY,
    EXECUTE,
    LOAD,
    RESET,
    SIGNAL,
    TIMESTAMP,
    UNLOAD,
    WAIT,
)
from accel_magic.lab.device.guest_fault import GuestFault

AT, SOURCE, TARGET, WORD = 0x200000, 0x300000, 0x400000, 0x500000
SUCCESS, PARSING_ERROR, ABORTED = 0, 1, 0x100


def program(*listed, magic=commands.MAGIC, count=None, size=None):
    """A command buffer: (kind, graph, [(address, size), ...]) each."""
    body = b"".join(
        commands.COMMAND.pack(kind, graph, len(spans), 0) + b"".join(commands.SPAN.pack(*span) for span in spans)
        for kind, graph, spans in listed
    )
    size = commands.HEADER.size + len(body) if size is None else size
    return bytes(64) + commands.HEADER.pack(magic, len(listed) if count is None else count, size) + body


class Jobs:
    """Submits command buffers of one context, one at a time."""

    def __init__(self, driver):
        self.driver = driver
        self.queue = driver.register(3)
        self.number = 0

    def start(self, buffer):
        self.number += 1
        self.driver.submit(self.queue, self.number, AT)
        self.driver.vpoke(AT, buffer.ljust(0x1000, b"\0"), 1)
        self.driver.ring(3)

    def run(self, *listed, **options):
        """Run a job; returns its status, or None if it has not ended after its time."""
        self.start(program(*listed, **options))
        return self.wait(500)

    def wait(self, microseconds):
        self.driver.advance(microseconds)
        done = self.driver.done()
        assert [each[2] for each in done] in ([], [self.number])
        return done[0][3] if done else None


@pytest.fixture
def jobs(driver):
    return Jobs(driver)


def test_a_copy_crosses_pages_of_both_areas(jobs):
    for base in (SOURCE, TARGET):
        jobs.driver.map(base, 0x3000, 1)
    content = bytes(range(256)) * 32
    jobs.driver.vpoke(SOURCE + 0x123, content, 1)

    assert jobs.run((COPY, 0, [(TARGET + 0xF00, len(content)), (SOURCE + 0x123, len(content))])) == SUCCESS

    assert jobs.driver.vpeek(TARGET + 0xF00, len(content), 1) == content
    assert jobs.driver.vpeek(TARGET + 0xF00 + len(content), 16, 1) == bytes(16)
    assert jobs.driver.guest_faults == {}


def test_commands_are_executed_in_order_and_the_job_takes_its_time(jobs):
    for base in (SOURCE, TARGET, WORD):
        jobs.driver.map(base, 0x1000, 1)
    jobs.driver.vpoke(SOURCE, b"first", 1)
    jobs.start(
        program((COPY, 0, [(TARGET, 5), (SOURCE, 5)]), (BARRIER, 0, []), (COPY, 0, [(SOURCE + 1, 4), (TARGET, 4)]))
    )

    assert jobs.wait(499) is None
    assert jobs.wait(1) == SUCCESS
    assert jobs.driver.vpeek(SOURCE, 5, 1) == b"ffirs"


def test_a_timestamp_is_the_hosts_clock(jobs):
    jobs.driver.map(WORD, 0x1000, 1)
    before = time.monotonic_ns()

    assert jobs.run((TIMESTAMP, 0, [(WORD + 8, 8)])) == SUCCESS

    (stamp,) = struct.unpack("<Q", jobs.driver.vpeek(WORD + 8, 8, 1))
    assert before <= stamp <= time.monotonic_ns()


def test_events_are_set_reset_and_waited_for(jobs):
    jobs.driver.map(WORD, 0x1000, 1)
    assert jobs.run((SIGNAL, 0, [(WORD, 8)]), (SIGNAL, 0, [(WORD + 8, 8)]), (RESET, 0, [(WORD, 8)])) == SUCCESS
    assert struct.unpack("<QQ", jobs.driver.vpeek(WORD, 16, 1)) == (0, 1)

    assert jobs.run((WAIT, 0, [(WORD + 8, 8)]), (WAIT, 0, [(WORD, 8)]), (SIGNAL, 0, [(WORD + 16, 8)])) is None
    assert jobs.wait(1_000_000) is None
    jobs.driver.vpoke(WORD, struct.pack("<Q", 1), 1)  # as a program on the host does
    jobs.driver.advance(200)
    assert jobs.wait(0) == SUCCESS
    assert struct.unpack("<QQQ", jobs.driver.vpeek(WORD, 24, 1)) == (1, 1, 1)


def test_a_job_that_waits_is_given_up_by_a_reset(jobs):
    jobs.driver.map(WORD, 0x1000, 1)
    assert jobs.run((WAIT, 0, [(WORD, 8)]), (SIGNAL, 0, [(WORD + 8, 8)])) is None

    assert jobs.driver.ask(0x1100, struct.pack("<II", 0, 0))[0] == 0  # ENGINE_RESET
    jobs.driver.vpoke(WORD, struct.pack("<Q", 1), 1)

    assert jobs.wait(10_000) is None
    assert jobs.driver.vpeek(WORD + 8, 8, 1) == bytes(8)
    assert jobs.driver.jobs == {"taken": 1, "aborted": 1}


def test_a_buffer_without_commands_is_a_job_that_takes_its_time(jobs):
    assert jobs.run(magic=0) == SUCCESS
    assert jobs.run() == SUCCESS
    assert jobs.driver.guest_faults == {}


@pytest.mark.parametrize(
    "buffer",
    [
        program((99, 0, [])),
        program((0, 0, [])),
        program((COPY, 0, [(TARGET, 8)])),
        program((BARRIER, 0, [(TARGET, 8)])),
        program((BARRIER, 0, []), count=2),
        program(count=0xFFFFFFFF),
        program(size=0),
        program(size=commands.LARGEST + 1),
        bytes(64) + commands.HEADER.pack(commands.MAGIC, 1, 32) + commands.COMMAND.pack(EXECUTE, 0, 0xFFFFFFFF, 0),
    ],
)
def test_a_damaged_command_buffer_fails_its_job(jobs, buffer):
    jobs.start(buffer)

    assert jobs.wait(500) == PARSING_ERROR
    assert jobs.driver.guest_faults == {"commands": 1}
    assert jobs.run((BARRIER, 0, [])) == SUCCESS


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ((COPY, 0, [(0x10000000, 8), (SOURCE, 8)]), "translation"),
        ((COPY, 0, [(SOURCE, 8), (0x10000000, 8)]), "translation"),
        ((COPY, 0, [(SOURCE + 0xFF8, 16), (SOURCE, 16)]), "translation"),
        ((COPY, 0, [(SOURCE, 8), (SOURCE, 9)]), "commands"),
        ((COPY, 0, [(SOURCE, 1 << 40), (SOURCE, 1 << 40)]), "commands"),
        ((COPY, 0, [((1 << 64) - 8, 8), (SOURCE, 8)]), "translation"),
        ((TIMESTAMP, 0, [(SOURCE, 4)]), "commands"),
        ((WAIT, 0, [(0x10000000, 8)]), "translation"),
        ((LOAD, 1, [(SOURCE, 1 << 40), (SOURCE, 4096)]), "commands"),
    ],
)
def test_a_command_about_memory_that_is_not_there_fails_its_job_and_those_after_it_do_not_run(jobs, command, fault):
    jobs.driver.map(SOURCE, 0x1000, 1)
    jobs.driver.map(WORD, 0x1000, 1)

    assert jobs.run(command, (SIGNAL, 0, [(WORD, 8)])) == PARSING_ERROR

    assert jobs.driver.guest_faults == {fault: 1}
    assert jobs.driver.vpeek(WORD, 8, 1) == bytes(8)
    assert jobs.run((SIGNAL, 0, [(WORD, 8)])) == SUCCESS


def test_an_inference_of_a_model_that_is_not_loaded_is_aborted(jobs):
    jobs.driver.map(SOURCE, 0x1000, 1)

    assert jobs.run((EXECUTE, 7, [(SOURCE, 8)])) == ABORTED
    assert jobs.run((UNLOAD, 7, [])) == SUCCESS


def test_an_answer_that_nothing_prepares_says_so(jobs):
    jobs.driver.map(TARGET, 0x1000, 1)

    assert jobs.run((AWAIT, 7, [(TARGET, 0x1000)])) == SUCCESS

    status, size = struct.unpack("<QQ", jobs.driver.vpeek(TARGET, 16, 1))
    assert (status, jobs.driver.vpeek(TARGET + 16, size, 1)) == (commands.FAILED, b"the NPU was reset")


def test_a_hanging_job_executes_nothing(jobs):
    jobs.driver.map(WORD, 0x1000, 1)
    request = struct.pack("<IIQ", 0x464C4D41, 2, 0)
    jobs.start(request + program((SIGNAL, 0, [(WORD, 8)]))[len(request) :])

    assert jobs.wait(10_000_000) is None
    assert jobs.driver.vpeek(WORD, 8, 1) == bytes(8)


spans = st.tuples(st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 64) - 1))
near = st.tuples(st.sampled_from([SOURCE, SOURCE + 0xFFF, TARGET, 0, 1 << 48]), st.integers(0, 0x1800))
listed = st.lists(
    st.tuples(
        st.sampled_from([COPY, BARRIER, TIMESTAMP, SIGNAL, RESET, WAIT, AWAIT, UNLOAD, EXECUTE, 0, 77]),
        st.integers(0, 3),
        st.lists(st.one_of(near, spans), max_size=3),
    ),
    max_size=6,
)


@settings(suppress_health_check=list(HealthCheck))
@given(listed=listed, cut=st.integers(0, 200), noise=st.binary(max_size=40))
def test_whatever_a_command_buffer_holds_its_job_ends_or_waits_and_the_next_one_runs(make_driver, listed, cut, noise):
    with contextlib.closing(make_driver()) as driver:
        jobs = Jobs(driver.boot())
        for base in (SOURCE, TARGET):
            driver.map(base, 0x1000, 1)
        buffer = program(*listed)
        at = min(cut, len(buffer))
        jobs.start(buffer[:at] + noise + buffer[at + len(noise) :])

        if jobs.wait(2_000_000) is None:  # waits for an event, or hangs on request
            driver.ask(0x1100, struct.pack("<II", 0, 0))
        assert jobs.run((BARRIER, 0, [])) == SUCCESS
        assert set(driver.guest_faults) <= {"commands", "translation", "dma", "fault-request", "batch"}


@given(st.binary(max_size=400))
def test_any_bytes_are_commands_or_a_fault(content):
    memory = bytes(64) + commands.MAGIC.to_bytes(4, "little") + content

    def read(address, size):
        if address + size > len(memory):
            raise GuestFault("translation", "the end")
        return memory[address : address + size]

    try:
        found = commands.parse(read, 0)
    except GuestFault:
        return
    assert all(len(each.spans) <= len(memory) // commands.SPAN.size for each in found)


@given(st.binary(max_size=400))
def test_any_description_of_a_model_is_sizes_or_an_error(content):
    try:
        sizes = commands.sizes_of(content)
    except ValueError:
        return
    assert len(sizes.inputs) + len(sizes.outputs) <= len(content) // 8
