"""Mapping the GPU's clock to the host's, with a driver whose clock is known."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.devices.cuda import clock as clocks
from accel_magic.devices.cuda.clock import GpuClockExchange, narrowest
from accel_magic.devices.cuda.memory import CudaMemory
from accel_magic.devices.device import DeviceClock
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.errors import MachineError
from tests.support.errors import raises

MINUTE = 60_000_000_000


@pytest.fixture
def memory(driver):
    memory = CudaMemory.open(driver=driver)
    yield memory
    memory.close()


@pytest.mark.parametrize("offset", [0, 1_700_000_000 * 10**9, -5_000_000])
@pytest.mark.parametrize("step", [1, 32, 1000])
def test_a_mapped_time_is_within_the_stated_error(books, memory, offset, step):
    books.set.offset, books.set.step = offset, step

    clock = memory.clock()

    host = time.monotonic_ns()
    device = books.library.driver_clock(host)
    mapped = int(clock.to_host(np.array([device]))[0])
    assert abs(mapped - host) <= clock.error_ns
    assert step <= clock.error_ns < 10_000_000


@pytest.mark.parametrize("drift", [300, -300, 20_000])
def test_a_line_through_two_comparisons_is_accurate_between_them_for_a_drifting_clock(books, memory, drift):
    books.set.drift_ppm, books.set.offset = drift, 10**15
    first = memory.clock()
    moments = []
    for _ in range(10):
        time.sleep(0.01)
        host = time.monotonic_ns()
        moments.append((host, books.library.driver_clock(host)))
    line = first.through(memory.clock())

    hosts, devices = np.array(moments).T

    assert (np.abs(line.to_host(devices) - hosts) <= line.error_ns + 1).all()
    assert line.rate == pytest.approx(1 / (1 + drift / 1e6), abs=2 * line.error_ns / 1e8)


def test_if_the_gpu_does_not_answer_the_request_is_withdrawn_and_the_mailbox_is_kept(books, driver, monkeypatch):
    monkeypatch.setattr(clocks, "TIMEOUT_NS", 5_000_000)
    memory = CudaMemory.open(driver=driver)
    books.set.silent = 1
    held = books.held()

    with raises("cuda.no-answer", MachineError) as caught:
        memory.clock()

    memory.close()
    assert "synchronize" in caught.value.fix
    assert books.held() == held


def test_an_aborted_exchange_keeps_the_earlier_ones(books, memory, monkeypatch):
    monkeypatch.setattr(clocks, "_LIMIT_NS", 5_000_000)
    books.set.after_rounds, books.set.offset = 3, 123_456_789

    clock = memory.clock()

    assert abs(clock.device_ns - clock.host_ns - 123_456_789) <= clock.error_ns


def test_if_launches_block_until_their_kernel_ends_each_answers_once(books, memory, monkeypatch):
    monkeypatch.setattr(clocks, "_LIMIT_NS", 200_000_000)
    books.set.blocking, books.set.offset = 1, -77_000_000_000

    clock = memory.clock()

    assert clock.error_ns < 100_000_000
    assert abs(clock.device_ns - clock.host_ns + 77_000_000_000) <= clock.error_ns


def test_the_kernel_stops_waiting_when_the_host_fails_before_the_last_request(driver, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    memory = CudaMemory.open(driver=driver)
    monkeypatch.setattr(clocks, "_LIMIT_NS", 3_600 * 10**9)  # longer than a test may take
    monkeypatch.setattr(clocks.ClockKernel, "_ask", broken)
    with pytest.raises(ZeroDivisionError):
        memory.clock()

    memory.wait()


def test_a_failed_gpu_is_distinguished_from_a_busy_one(books, memory):
    books.set.sticky = 700

    with raises("cuda.driver-error", MachineError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        memory.clock()

    books.set.sticky = 0
    assert not memory.given_up


def test_the_narrowest_exchange_is_used_and_its_error_is_half_its_width_plus_one_step():
    exchanges = [GpuClockExchange(0, 5_000, 100), GpuClockExchange(200, 5_300, 211), GpuClockExchange(300, 5_400, 350)]

    assert narrowest(exchanges, 32) == DeviceClock(5_300, 205, 1.0, 6 + 32)


@given(
    st.integers(-(2**61), 2**61),
    st.integers(0, 2**40),
    st.integers(-500, 500),
    st.integers(0, 10**12),
    st.integers(1, 5000),
)
def test_between_two_comparisons_the_larger_error_applies(offset, host, ppm, length, error):
    def device(at):
        return at + offset + (at - host) * ppm // 1_000_000

    ends = [DeviceClock(device(at), at + shift, 1.0, error) for at, shift in ((host, error), (host + length, -error))]

    line = ends[0].through(ends[1])

    if length > 4 * error:
        times = np.linspace(host, host + length, 17).astype(np.int64)
        mapped = line.to_host(np.array([device(int(at)) for at in times]))
        assert (np.abs(mapped - times) <= error + 2).all()


def test_the_error_of_a_clock_that_went_back_includes_the_step():
    assert DeviceClock(1_000, 0, 1.0, 10).through(DeviceClock(400, 5_000, 1.0, 20)).error_ns == 20 + 5_000 + 600


def test_the_error_grows_with_time_since_the_last_comparison():
    assert DeviceClock(0, 1_000, 1.0, 50).aged(1_000 + MINUTE) == DeviceClock(0, 1_000, 1.0, 50 + 6_000_000)
    assert DeviceClock(0, 1_000, 1.0, 50).aged(0).error_ns == 50


class TestKernel:
    """The clock kernel on the simulated device."""

    @pytest.fixture
    def run(self):
        from importlib import resources

        device = SimulatedDevice()
        module = device.load(resources.files("accel_magic.devices.cuda").joinpath("clock.ptx").read_text())

        def run(rounds, asked, limit=10**6):
            mailbox = device.allocate(8 * (2 + rounds))
            words = device.view(mailbox, 8 * (2 + rounds)).view("<u8")
            words[0] = asked
            launch = device.launch(module, "accel_magic_clock", 1, 1, [mailbox, rounds, limit])
            return words.copy(), launch

        return run

    def test_it_answers_each_request_once_in_order_with_the_time(self, run):
        words, launch = run(8, 2**64 - 1)

        answers = words[2:].astype(np.int64)
        assert (np.diff(answers) > 0).all()
        assert launch.start_ns <= answers[0] <= answers[-1] <= launch.start_ns + launch.duration_ns
        assert 1 <= words[1] < 100

    def test_it_answers_only_requests_and_ends_after_its_limit(self, run):
        words, launch = run(4, 2, limit=3_000)

        assert (words[2:4] > 0).all()
        assert (words[4:] == 0).all()
        assert 3_000 <= launch.duration_ns < 6_000
