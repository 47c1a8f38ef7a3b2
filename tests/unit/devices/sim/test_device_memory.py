"""The device's memory: a file that other processes can map, and other files mapped into it."""

from __future__ import annotations

import mmap
import os
import sys
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

from accel_magic.devices.sim import DeviceFault, SimulatedDevice
from accel_magic.errors import MachineError, ProgramError
from tests.support.errors import raises

PAGE = mmap.PAGESIZE
ADD = """.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 to, .param .u32 number)
{
	.reg .b64 %d;
	.reg .b32 %r<3>;
	ld.param.u64 %d, [to];
	ld.param.u32 %r1, [number];
	atom.global.add.u32 %r2, [%d], %r1;
	ret;
}
.visible .entry endless() {
AGAIN:
	bra AGAIN;
}
"""


@pytest.fixture
def file():
    descriptor = os.memfd_create("shared")
    os.ftruncate(descriptor, 2 * PAGE)
    yield descriptor
    os.close(descriptor)


def test_a_kernel_writes_to_a_shared_file_and_reads_from_it_live(file):
    device = SimulatedDevice(1 << 20)
    module = device.load(ADD)
    os.pwrite(file, (40).to_bytes(4, "little"), 100)
    address = device.share(file, 5000)
    device.launch(module, "add", 1, 1, [address + 100, 2])
    assert int.from_bytes(os.pread(file, 4, 100), "little") == 42
    os.pwrite(file, (1).to_bytes(4, "little"), 100)
    device.launch(module, "add", 1, 32, [address + 100, 2])
    assert device.view(address + 100, 4).view(np.uint32)[0] == 65


def test_shared_memory_is_bounded_by_its_size_and_no_allocation_is_in_its_pages(file):
    device = SimulatedDevice(1 << 20)
    module = device.load(ADD)
    before = device.allocate(100)
    address = device.share(file, 100)
    others = [before, *(device.allocate(64) for _ in range(20))]
    assert address % PAGE == 0
    assert all(other + 100 <= address or other >= address + PAGE for other in others)
    with raises("gpu.fault.out-of-bounds", DeviceFault):
        device.launch(module, "add", 1, 1, [address + 100, 1])
    for other in others:
        device.view(other, 64)[:] = 255
    assert os.pread(file, PAGE, 0) == bytes(PAGE)


def test_freeing_ends_the_sharing_and_the_memory_is_private_and_zero_again(file):
    device = SimulatedDevice(1 << 20)
    address = device.share(file, PAGE)
    view = device.view(address, PAGE)
    view[:] = 7
    device.free(address)
    again = device.allocate(PAGE, PAGE)
    assert again == address
    assert not device.view(again, PAGE).any()
    device.view(again, PAGE)[:] = 9
    assert os.pread(file, PAGE, 0) == bytes([7]) * PAGE


def test_the_descriptor_may_be_closed_after_sharing():
    device = SimulatedDevice(1 << 20)
    descriptor = os.memfd_create("shared")
    os.ftruncate(descriptor, PAGE)
    address = device.share(descriptor, PAGE)
    os.close(descriptor)
    device.view(address, PAGE)[:] = 3
    assert device.view(address, PAGE).sum() == 3 * PAGE


def test_files_that_cannot_be_shared_are_rejected_and_allocate_nothing(file, tmp_path):
    device = SimulatedDevice(1 << 20)
    path = tmp_path / "file"
    path.write_bytes(bytes(PAGE))
    with path.open("rb") as reading, raises("gpu.map.not-shareable", MachineError):
        device.share(reading.fileno(), PAGE)
    with raises("gpu.bad-allocation", ProgramError):
        device.share(file, 0)
    with raises("gpu.out-of-memory", MachineError):
        device.share(file, 2 << 20)
    assert device.memory.allocated == 0


def test_memory_is_sparse_and_freed_memory_is_zero_when_allocated_again():
    device = SimulatedDevice(8 << 30)
    address = device.allocate(6 << 30)
    assert not device.view(address, 64).any()
    assert os.fstat(device.memory.descriptor).st_blocks * 512 < 1 << 20
    device.view(address, 64)[:] = 1
    device.free(address)
    assert not device.view(device.allocate(64), 64).any()


def test_another_mapping_of_the_file_sees_the_same_memory():
    device = SimulatedDevice(1 << 20)
    first, second = device.allocate(64), device.allocate(64)
    device.view(second, 64)[:] = 5
    with mmap.mmap(device.memory.descriptor, device.memory.size) as other:
        assert other[second - first] == 5
        other[0] = 8
    assert device.view(first, 1)[0] == 8


def test_the_file_is_closed_with_the_device():
    device = SimulatedDevice(1 << 20)
    descriptor = device.memory.descriptor
    del device
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_forked_process_writes_to_its_own_copy_of_memory_but_still_to_shared_files(file):
    device = SimulatedDevice(1 << 20)
    module = device.load(ADD)
    own, shared = device.allocate(64), device.share(file, PAGE)
    device.view(own, 4)[:] = 1
    child = os.fork()
    if not child:
        device.launch(module, "add", 1, 1, [own, 1])
        device.launch(module, "add", 1, 1, [shared, 1])
        more = device.allocate(1 << 18)
        device.view(more, 1 << 18)[:] = 9
        os._exit(device.view(own, 1)[0])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert device.view(own, 4).tolist() == [1] * 4
    assert device.view(shared, 1)[0] == 1
    assert not device.view(device.allocate(1 << 18), 1 << 18).any()


@pytest.fixture
def _hasty():
    """Switch threads after every few instructions of the interpreter."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work, count=4):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


@pytest.mark.usefixtures("_hasty")
def test_threads_that_allocate_concurrently_never_get_the_same_memory():
    device = SimulatedDevice(1 << 22)
    got = [[] for _ in range(4)]

    def work(number):
        for size in range(1, 80):
            got[number].append((device.allocate(size * 8), size * 8))
            if size % 3 == 0:
                device.free(got[number].pop(0)[0])

    together(work)
    ranges = sorted(one for mine in got for one in mine)
    assert len(ranges) == 4 * (79 - 26)
    assert all(start + size <= following for (start, size), (following, _) in pairwise(ranges))
    assert device.memory.allocated == sum(size for _, size in ranges)


@pytest.mark.usefixtures("_hasty")
def test_concurrently_launched_kernels_run_one_after_the_other():
    device = SimulatedDevice(1 << 20)
    module, to, done = device.load(ADD), device.allocate(4), []
    together(lambda _: done.extend([device.launch(module, "add", 8, 64, [to, 1]) for _ in range(5)]))
    assert device.view(to, 4).view(np.uint32)[0] == 4 * 5 * 8 * 64
    in_order = sorted(done, key=lambda launch: launch.start_ns)
    assert [launch.number for launch in in_order] == list(range(1, 21))
    assert all(one.start_ns + one.duration_ns < following.start_ns for one, following in pairwise(in_order))


def test_another_thread_can_stop_a_kernel_and_only_its_own():
    device = SimulatedDevice(1 << 20)
    module, to, caught = device.load(ADD), device.allocate(4), []

    def work():
        try:
            device.launch(module, "endless", 1, 1, [])
        except DeviceFault as fault:
            caught.append(fault)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(20):
        device.stop(threading.get_ident())
        thread.join(0.01)
    assert thread.is_alive()
    until = time.monotonic() + 60
    while thread.is_alive() and time.monotonic() < until:
        device.stop(thread.ident)
        thread.join(0.01)
    assert caught[0].code == "gpu.fault.abandoned"
    assert device.launch(module, "add", 1, 1, [to, 1]).instructions > 0


def test_unloading_a_module_frees_its_variables():
    device = SimulatedDevice(1 << 20)
    module = device.load(ADD.replace(".visible .entry add", ".global .u32 x[100];\n.visible .entry add"))
    assert device.memory.allocated == 400
    device.unload(module)
    assert device.memory.allocated == 0
