"""Memory of a GPU for maps, on the recording driver: contents, and that nothing leaks."""

import ctypes
import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest

from accel_magic.devices.cuda.memory import CudaMemory
from accel_magic.errors import MachineError
from accel_magic.interrupts import uninterrupted
from tests.support.errors import raises


@pytest.fixture
def memory(driver):
    memory = CudaMemory.open(driver=driver)
    yield memory
    memory.close()


def on_device(address, size):
    """View device memory; the recording driver's addresses are host addresses."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def numbers(size, seed=1):
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_opening_and_closing_leaves_nothing(books, driver):
    for _ in range(200):
        CudaMemory.open(driver=driver).close()

    assert books.held() == {}
    assert books.count.freed_elsewhere == 0


def test_closing_frees_the_remaining_memory_and_can_be_repeated(books, driver):
    memory = CudaMemory.open(driver=driver)
    memory.allocate(numbers(100))
    memory.allocate(numbers(100), "host")

    memory.close()
    memory.close()

    assert books.held() == {}


@pytest.mark.parametrize("kind", ["device", "host"])
@pytest.mark.parametrize("size", [1, 4096, (4 << 20) + 5])
def test_allocated_memory_has_the_given_content(memory, kind, size):
    content = numbers(size)

    address = memory.allocate(content, kind)

    assert address % 256 == 0
    np.testing.assert_array_equal(on_device(address, size), content)
    np.testing.assert_array_equal(memory.read(address, size), content)


def test_zeros_are_zero_on_the_device_although_the_driver_returns_used_memory(memory):
    content = np.zeros(9 << 20, np.uint8)
    content[8 << 20] = 7

    address = memory.allocate(content)

    np.testing.assert_array_equal(on_device(address, len(content)), content)


def test_part_of_a_block_can_be_read_and_the_result_is_a_copy(memory):
    address = memory.allocate(numbers(1000))

    part = memory.read(address + 100, 50)
    on_device(address, 1000)[:] = 0

    np.testing.assert_array_equal(part, numbers(1000)[100:150])


def test_only_host_memory_has_a_live_view(memory):
    host, device = memory.allocate(numbers(64), "host"), memory.allocate(numbers(64))

    seen = memory.view(host + 8, 8)
    on_device(host, 64)[8] = 200

    assert seen[0] == 200
    with raises("cuda.foreign-address", MachineError):
        memory.view(device, 64)


@pytest.mark.parametrize("reach", [lambda m: m.read(64, 8), lambda m: m.view(1 << 40, 1)])
def test_foreign_memory_is_rejected(memory, reach):
    with raises("cuda.foreign-address", MachineError):
        reach(memory)


def test_a_file_is_shared_in_both_directions_even_after_its_descriptor_is_closed(books, driver):
    memory = CudaMemory.open(driver=driver)
    before = books.count.registered
    descriptor = os.memfd_create("map")
    os.ftruncate(descriptor, 8192)
    other = os.dup(descriptor)

    address = memory.share(descriptor, 5000)
    os.close(descriptor)
    on_device(address, 5000)[4999] = 9
    os.pwrite(other, b"\7", 0)

    assert os.pread(other, 1, 4999) == b"\x09"
    assert memory.view(address, 1)[0] == memory.read(address, 5000)[0] == 7
    assert books.count.registered == before + 1
    memory.free(address)
    assert books.count.registered == before
    memory.close()
    os.close(other)


def test_if_the_driver_rejects_a_files_memory_an_error_is_raised_and_nothing_leaks(books, memory):
    held = books.held()
    books.set.refuse_register = 801
    descriptor = os.memfd_create("map")
    os.ftruncate(descriptor, 4096)

    with raises("gpu.map.not-shareable", MachineError, match="CUDA|error 801"):
        memory.share(descriptor, 100)

    os.close(descriptor)
    assert books.held() == held


def test_a_file_that_cannot_be_mapped_is_an_error(memory):
    reading, writing = os.pipe()

    with raises("gpu.map.not-shareable", MachineError, match="mmap") as caught:
        memory.share(reading, 100)

    os.close(reading)
    os.close(writing)
    assert "BPF_F_MMAPABLE" in caught.value.fix


@pytest.mark.parametrize(
    ("kind", "code", "why"),
    [
        ("device", "cuda.out-of-memory", "1,000 of its"),
        ("host", "cuda.out-of-host-memory", "cuMemHostRegister_v2: CUDA_ERROR_OUT_OF_MEMORY"),
    ],
)
def test_running_out_of_memory_is_an_error_with_the_sizes(books, memory, kind, code, why):
    held = books.held()
    books.set.room = books.count.bytes + 1000

    with raises(code, MachineError, match="2,000 bytes") as caught:
        memory.allocate(np.zeros(2000, np.uint8), kind)

    assert why in caught.value.why
    assert "--threads" in caught.value.fix
    assert books.held() == held


@pytest.mark.parametrize(("setting", "kind"), [("refuse_set", "device"), ("refuse_pointer", "host")])
def test_memory_that_cannot_be_filled_or_mapped_is_freed(books, memory, setting, kind):
    held = books.held()
    setattr(books.set, setting, 1)

    with raises("cuda.driver-error", MachineError):
        memory.allocate(numbers(10), kind)

    setattr(books.set, setting, 0)
    assert books.held() == held


def test_a_failed_opening_leaves_nothing(books, driver):
    books.set.room = 1 << 20

    with raises("cuda.out-of-host-memory", MachineError):
        CudaMemory.open(driver=driver)

    assert books.held() == {}


class TestContexts:
    """Calls do not change the user's current context; maps are in the context of the user's kernels."""

    def test_no_context_is_current_afterwards_if_none_was_before(self, books, memory):
        address = memory.allocate(numbers(10))
        memory.read(address, 10)
        memory.clock()
        memory.wait()
        memory.free(address)

        assert books.library.driver_depth() == 0
        assert books.count.mode_left == 0

    def test_maps_are_in_the_users_own_context_and_no_other_is_retained(self, books, driver):
        books.library.driver_enter(0, 1)

        memory = CudaMemory.open(driver=driver)

        assert memory.elsewhere() == ""
        assert books.count.retains == 0
        memory.close()
        assert books.library.driver_depth() == 1
        driver.handle("cuCtxPopCurrent_v2")
        assert books.held() == {}

    def test_an_active_primary_context_is_not_used_if_the_users_own_is_current(self, books, driver):
        books.count.retained[0] = 1  # by another library
        books.library.driver_enter(0, 1)

        memory = CudaMemory.open(driver=driver)
        memory.close()

        driver.handle("cuCtxPopCurrent_v2")
        assert list(books.count.retained) == [1, 0]

    def test_the_primary_context_is_kept_alive_until_the_end(self, books, driver):
        memory = CudaMemory.open(driver=driver)
        assert list(books.count.retained) == [1, 0]

        memory.close()

        assert list(books.count.retained) == [0, 0]

    @pytest.mark.parametrize(("device", "own", "where"), [(1, 0, "GPU 1"), (0, 1, "another context of GPU 0")])
    def test_kernels_of_another_gpu_or_context_get_the_reason_why_they_cannot_access_the_maps(
        self, books, driver, device, own, where
    ):
        books.set.devices = 2
        memory = CudaMemory.open(driver=driver)
        books.library.driver_enter(device, own)

        reason = memory.elsewhere()

        driver.handle("cuCtxPopCurrent_v2")
        memory.close()
        books.count.retained[1] = 0
        assert where in reason
        assert "GPU 0" in reason


class TestFailure:
    """One of the user's kernels has failed, or the context was reset."""

    @pytest.mark.parametrize("code", [700, 719])
    def test_on_a_failed_gpu_reading_device_memory_is_an_error_and_rings_are_still_readable(self, books, driver, code):
        memory = CudaMemory.open(driver=driver)
        device, host = memory.allocate(numbers(10)), memory.allocate(numbers(10), "host")
        books.set.sticky = code

        with raises("cuda.driver-error", MachineError):
            memory.read(device, 10)
        np.testing.assert_array_equal(memory.read(host, 10), numbers(10))

        memory.free(device)
        memory.close()
        assert list(books.count.retained) == [0, 0]

    def test_rings_are_readable_after_their_context_was_destroyed(self, books, driver):
        memory = CudaMemory.open(driver=driver)
        host = memory.allocate(numbers(10), "host")
        books.set.sticky = 709

        np.testing.assert_array_equal(memory.read(host, 10), numbers(10))

        memory.free(host)
        memory.close()

    def test_freeing_memory_that_a_reset_has_freed_is_not_an_error(self, books, driver):
        memory = CudaMemory.open(driver=driver)
        address = memory.allocate(numbers(10))
        driver.handle("cuDevicePrimaryCtxRetain", 0)
        books.library.driver_enter(0, 0)
        driver.call("cuMemFree_v2", address)
        driver.handle("cuCtxPopCurrent_v2")

        memory.free(address)

        memory.close()

    def test_waiting_for_a_failed_gpu_returns(self, books, memory):
        books.set.sticky = 700

        assert memory.wait()

        books.set.sticky = 0


class TestWaiting:
    """Kernels may still run at the end of a trace."""

    def test_all_kernels_are_waited_for(self, books, memory):
        books.set.busy_ns = 50_000_000
        began = time.monotonic_ns()

        assert memory.wait()

        assert time.monotonic_ns() - began >= 50_000_000

    def test_an_interrupt_ends_the_wait_and_the_memory_of_running_kernels_is_kept(self, books, driver):
        memory = CudaMemory.open(driver=driver)
        address = memory.allocate(numbers(10))
        books.set.busy_ns = 1_000_000_000
        held = books.held()
        threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()

        with pytest.raises(KeyboardInterrupt), uninterrupted():
            assert not memory.wait()
        seen = weakref.ref(memory)
        memory.free(address)
        memory.close()
        del memory
        gc.collect()

        assert books.held() == held
        assert seen() is not None  # kernels may still write to its pages
        for thread in threading.enumerate():
            if thread.name == "accel_magic gpu end":
                thread.join()

    def test_a_stream_is_waited_for_unless_it_is_being_captured(self, books, memory):
        memory.finish(0)
        books.set.capturing = 1
        stream = ctypes.create_string_buffer(1)
        calls = books.count.calls

        memory.finish(ctypes.addressof(stream))

        assert books.count.calls == calls + 1  # no cuStreamSynchronize

    def test_reading_from_another_thread_uses_the_same_context(self, books, memory):
        address = memory.allocate(numbers(100))
        found = []
        reading = threading.Thread(target=lambda: found.append(memory.read(address, 100)))

        reading.start()
        reading.join()

        np.testing.assert_array_equal(found[0], numbers(100))
