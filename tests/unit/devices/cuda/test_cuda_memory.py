"""Memory of a GPU for maps, against a driver that keeps books: what is there, and that nothing is left."""

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


@pytest.fixture
def memory(driver):
    memory = CudaMemory.open(driver=driver)
    yield memory
    memory.close()


def on_device(address, size):
    """The recording driver's addresses are the host's."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def numbers(size, seed=1):
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


def test_opening_and_closing_leaves_nothing(books, driver):
    for _ in range(200):
        CudaMemory.open(driver=driver).close()

    assert books.held() == {}
    assert books.count.freed_elsewhere == 0


def test_closing_gives_back_what_was_not_freed_and_again_is_harmless(books, driver):
    memory = CudaMemory.open(driver=driver)
    memory.allocate(numbers(100))
    memory.allocate(numbers(100), "host")

    memory.close()
    memory.close()

    assert books.held() == {}


@pytest.mark.parametrize("kind", ["device", "host"])
@pytest.mark.parametrize("size", [1, 4096, (4 << 20) + 5])
def test_memory_holds_the_content_it_is_allocated_with(memory, kind, size):
    content = numbers(size)

    address = memory.allocate(content, kind)

    assert address % 256 == 0
    np.testing.assert_array_equal(on_device(address, size), content)
    np.testing.assert_array_equal(memory.read(address, size), content)


def test_what_is_zero_is_zero_on_the_device_although_the_driver_gives_used_memory(memory):
    content = np.zeros(9 << 20, np.uint8)
    content[8 << 20] = 7

    address = memory.allocate(content)

    np.testing.assert_array_equal(on_device(address, len(content)), content)


def test_a_part_of_a_block_can_be_read_and_a_copy_does_not_change(memory):
    address = memory.allocate(numbers(1000))

    part = memory.read(address + 100, 50)
    on_device(address, 1000)[:] = 0

    np.testing.assert_array_equal(part, numbers(1000)[100:150])


def test_host_memory_is_seen_live_and_device_memory_is_not(memory):
    host, device = memory.allocate(numbers(64), "host"), memory.allocate(numbers(64))

    seen = memory.view(host + 8, 8)
    on_device(host, 64)[8] = 200

    assert seen[0] == 200
    assert memory.view(device, 64) is None


@pytest.mark.parametrize("reach", [lambda m: m.read(64, 8), lambda m: m.view(1 << 40, 1)])
def test_memory_of_others_is_refused(memory, reach):
    with pytest.raises(MachineError, match="not this trace's"):
        reach(memory)


def test_a_file_is_shared_both_ways_also_after_its_descriptor_is_closed(books, driver):
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


def test_a_driver_that_does_not_take_the_memory_of_a_file_is_an_error_and_nothing_stays(books, memory):
    held = books.held()
    books.set.refuse_register = 801
    descriptor = os.memfd_create("map")
    os.ftruncate(descriptor, 4096)

    with pytest.raises(MachineError, match="does not take the memory"):
        memory.share(descriptor, 100)

    os.close(descriptor)
    assert books.held() == held


def test_a_file_that_cannot_be_mapped_is_an_error(memory):
    reading, writing = os.pipe()

    with pytest.raises(MachineError, match="cannot be shared") as caught:
        memory.share(reading, 100)

    os.close(reading)
    os.close(writing)
    assert "BPF_F_MMAPABLE" in caught.value.fix


@pytest.mark.parametrize(
    ("kind", "why"), [("device", "1,000 of its"), ("host", "cuMemHostRegister_v2: CUDA_ERROR_OUT_OF_MEMORY")]
)
def test_lack_of_room_says_how_much_there_is(books, memory, kind, why):
    held = books.held()
    books.set.room = books.count.bytes + 1000

    with pytest.raises(MachineError, match="no room for 2,000 bytes") as caught:
        memory.allocate(np.zeros(2000, np.uint8), kind)

    assert why in caught.value.why
    assert "--threads" in caught.value.fix
    assert books.held() == held


@pytest.mark.parametrize(("setting", "kind"), [("refuse_set", "device"), ("refuse_pointer", "host")])
def test_memory_that_cannot_be_filled_or_reached_is_given_back(books, memory, setting, kind):
    held = books.held()
    setattr(books.set, setting, 1)

    with pytest.raises(MachineError, match="refuses"):
        memory.allocate(numbers(10), kind)

    setattr(books.set, setting, 0)
    assert books.held() == held


def test_opening_that_fails_half_way_leaves_nothing(books, driver):
    books.set.room = 1 << 20

    with pytest.raises(MachineError, match="no room"):
        CudaMemory.open(driver=driver)

    assert books.held() == {}


class TestContexts:
    """The user's current context is the same after every call; maps lie where the user's kernels run."""

    def test_nothing_is_current_afterwards_where_nothing_was(self, books, memory):
        address = memory.allocate(numbers(10))
        memory.read(address, 10)
        memory.clock()
        memory.wait()
        memory.free(address)

        assert books.library.driver_depth() == 0
        assert books.count.mode_left == 0

    def test_in_a_context_of_the_users_own_the_maps_lie_there_and_no_other_is_made(self, books, driver):
        books.library.driver_enter(0, 1)

        memory = CudaMemory.open(driver=driver)

        assert memory.elsewhere() == ""
        assert books.count.retains == 0
        memory.close()
        assert books.library.driver_depth() == 1
        driver.handle("cuCtxPopCurrent_v2")
        assert books.held() == {}

    def test_an_active_primary_context_beside_the_users_own_is_not_taken(self, books, driver):
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
    def test_kernels_of_another_gpu_or_context_are_told_that_they_do_not_reach_the_maps(
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
    """A kernel of the user's has failed, or the context was reset."""

    @pytest.mark.parametrize("code", [700, 719])
    def test_memory_on_a_gpu_that_has_failed_is_an_error_and_rings_are_still_read(self, books, driver, code):
        memory = CudaMemory.open(driver=driver)
        device, host = memory.allocate(numbers(10)), memory.allocate(numbers(10), "host")
        books.set.sticky = code

        with pytest.raises(MachineError, match="context is gone"):
            memory.read(device, 10)
        np.testing.assert_array_equal(memory.read(host, 10), numbers(10))

        memory.free(device)
        memory.close()
        assert list(books.count.retained) == [0, 0]

    def test_rings_are_read_also_after_their_context_was_destroyed(self, books, driver):
        memory = CudaMemory.open(driver=driver)
        host = memory.allocate(numbers(10), "host")
        books.set.sticky = 709

        np.testing.assert_array_equal(memory.read(host, 10), numbers(10))

        memory.free(host)
        memory.close()

    def test_giving_back_what_went_with_a_reset_is_no_error(self, books, driver):
        memory = CudaMemory.open(driver=driver)
        address = memory.allocate(numbers(10))
        driver.handle("cuDevicePrimaryCtxRetain", 0)
        books.library.driver_enter(0, 0)
        driver.call("cuMemFree_v2", address)
        driver.handle("cuCtxPopCurrent_v2")

        memory.free(address)

        memory.close()

    def test_waiting_for_a_gpu_that_has_failed_ends(self, books, memory):
        books.set.sticky = 700

        assert memory.wait()

        books.set.sticky = 0


class TestWaiting:
    """At the end of a trace kernels may still run."""

    def test_all_kernels_are_waited_for(self, books, memory):
        books.set.busy_ns = 50_000_000
        began = time.monotonic_ns()

        assert memory.wait()

        assert time.monotonic_ns() - began >= 50_000_000

    def test_an_interrupt_ends_the_waiting_and_the_memory_of_what_still_runs_stays(self, books, driver):
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
        assert seen() is not None  # its pages are the kernels' to write to
        for thread in threading.enumerate():
            if thread.name == "accel_magic gpu end":
                thread.join()

    def test_one_stream_is_waited_for_unless_it_is_being_captured(self, books, memory):
        memory.finish(0)
        books.set.capturing = 1
        stream = ctypes.create_string_buffer(1)
        calls = books.count.calls

        memory.finish(ctypes.addressof(stream))

        assert books.count.calls == calls + 1  # no cuStreamSynchronize

    def test_reading_from_a_thread_of_its_own_uses_the_same_context(self, books, memory):
        address = memory.allocate(numbers(100))
        found = []
        reading = threading.Thread(target=lambda: found.append(memory.read(address, 100)))

        reading.start()
        reading.join()

        np.testing.assert_array_equal(found[0], numbers(100))
