"""The mock CUDA driver, used by programs in separate processes."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from accel_magic import local_socket
from accel_magic.devices import mock_cuda
from accel_magic.devices.mock_cuda import library_build
from accel_magic.errors import MachineError
from tests.support.errors import raises

pytestmark = pytest.mark.thorough  # the driver is itself for tests, and those that use it cover most of this
HERE = Path(__file__).parent
FATBIN = HERE.parents[1] / "ptx" / "fatbins" / "two_kernels_speed.fatbin"


def values(text):
    return [ast.literal_eval(line) for line in text.splitlines()]


def test_a_kernel_changes_an_array_exactly(machine):
    out = machine().run("""
begin()
n = 1000
data = alloc(4 * n)
put(data, range(n))
ok(launch(kernel("twice"), c_uint64(data), c_uint(n), grid=8, block=128))
print(get(data, n))
""")
    assert values(out) == [[2 * i for i in range(1000)]]


def test_the_devices_name_says_that_it_is_simulated(machine):
    out = machine(multiprocessors=6).run("""
begin()
name, number, total = ctypes.create_string_buffer(64), c_int(), c_size_t()
ok(cu.cuDeviceGetName(name, 64, 0))
print(name.value.decode())
for attribute in (75, 76, 10, 16, 1):
    ok(cu.cuDeviceGetAttribute(byref(number), attribute, 0))
    print(number.value)
ok(cu.cuDeviceTotalMem_v2(byref(total), 0))
print(total.value)
print(cu.cuDeviceGet(byref(number), 1))
""")
    assert out.splitlines() == ["simulated device", "8", "0", "32", "6", "1024", str(1 << 26), "101"]


def test_calls_before_cuinit_or_without_a_context_fail(machine):
    out = machine().run("""
address, number = c_uint64(), c_int()
print(cu.cuDeviceGetCount(byref(number)), cu.cuMemAlloc_v2(byref(address), c_size_t(4)))
ok(cu.cuInit(0))
print(cu.cuDeviceGetCount(byref(number)), cu.cuMemAlloc_v2(byref(address), c_size_t(4)))
""")
    assert out.split() == ["3", "3", "0", "201"]


def test_parameters_get_the_kernels_layout_when_passed_one_by_one_or_as_a_block(machine):
    out = machine().run("""
begin()
to, function = alloc(8), kernel("packed")
ok(launch(function, c_ubyte(200), c_uint64(1 << 40), c_uint64(to)))
print(get(to, 1, c_uint64))
block = (200).to_bytes(8, "little") + (5).to_bytes(8, "little") + to.to_bytes(8, "little")
size = c_size_t(len(block))
extra = (c_void_p * 5)(1, ctypes.cast(block, c_void_p), 2, ctypes.addressof(size), None)
ok(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, extra))
print(get(to, 1, c_uint64))
offsets = []
for number in range(3):
    offset, bytes_ = c_size_t(), c_size_t()
    ok(cu.cuFuncGetParamInfo(function, c_size_t(number), byref(offset), byref(bytes_)))
    offsets.append((offset.value, bytes_.value))
print(offsets, cu.cuFuncGetParamInfo(function, c_size_t(3), byref(offset), byref(bytes_)))
""")
    assert out.splitlines() == [f"[{(1 << 40) + 200}]", "[205]", "[(0, 1), (8, 8), (16, 8)] 1"]


def test_a_launch_is_asynchronous_and_only_its_own_stream_waits(machine):
    out = machine().run("""
begin()
streams = []
for _ in range(2):
    stream = c_void_p()
    ok(cu.cuStreamCreate(byref(stream), 1))
    streams.append(stream)
flag, other = host_alloc(4), alloc(4)
ctypes.memset(flag, 0, 4)
ok(launch(kernel("waits"), c_uint64(flag), stream=streams[0]))
print(cu.cuStreamQuery(streams[0]), cu.cuStreamQuery(streams[1]))
word = c_uint(7)
ok(cu.cuMemcpyHtoDAsync_v2(c_uint64(other), byref(word), c_size_t(4), streams[1]))
back = c_uint()
ok(cu.cuMemcpyDtoHAsync_v2(byref(back), c_uint64(other), c_size_t(4), streams[1]))
print(back.value, cu.cuStreamQuery(streams[0]))
c_uint.from_address(flag).value = 1
ok(cu.cuStreamSynchronize(streams[0]))
print(c_uint.from_address(flag).value, cu.cuStreamQuery(streams[0]))
""")
    assert out.splitlines() == ["600 0", "7 600", "2 0"]


def test_events_are_reached_in_order_and_measure_the_device_clock(machine):
    out = machine().run("""
begin()
events = []
for _ in range(2):
    event = c_void_p()
    ok(cu.cuEventCreate(byref(event), 0))
    events.append(event)
ms = c_float()
print(cu.cuEventElapsedTime_v2(byref(ms), *events))
flag = host_alloc(4)
ctypes.memset(flag, 0, 4)
ok(cu.cuEventRecord(events[0], None))
ok(launch(kernel("waits"), c_uint64(flag)))
ok(cu.cuEventRecord(events[1], None))
print(cu.cuEventQuery(events[1]))
c_uint.from_address(flag).value = 1
ok(cu.cuEventSynchronize(events[1]))
ok(cu.cuEventElapsedTime_v2(byref(ms), *events))
print(cu.cuEventQuery(events[1]), 0 < ms.value < 60_000)
""")
    assert out.splitlines() == ["400", "600", "0 True"]


@pytest.mark.parametrize(
    ("script", "result", "text"),
    [
        ('ok(launch(kernel("strays"), c_uint64(16)))', 700, "null pointer"),
        ('ok(launch(kernel("strays"), c_uint64(alloc(64) + 2)))', 716, "misaligned"),
        ('ok(launch(kernel("stops")))', 719, "trap"),
    ],
)
def test_a_fault_is_returned_until_the_device_is_reset_and_is_explained_once(machine, script, result, text):
    used = machine()
    out = used.run(f"""
begin()
{script}
print(sync(), sync())
address = c_uint64()
print(cu.cuMemAlloc_v2(byref(address), c_size_t(4)))
ok(cu.cuDevicePrimaryCtxReset_v2(0))
print(sync())
data = alloc(4)
put(data, [21])
ok(launch(kernel("twice"), c_uint64(data), c_uint(1)))
print(get(data, 1))
""")
    assert out.split() == [str(result)] * 3 + ["0", "[42]"]
    assert used.err.count("simulated device") == 1
    assert text in used.err


def test_after_a_fault_queued_kernels_do_not_run(machine):
    used = machine()
    process = used.start("""
begin()
module, data, flag = load(), alloc(4), host_alloc(4)
kernels = [kernel(name, module) for name in ("waits", "strays", "twice")]
put(data, [5])
c_uint.from_address(flag).value = 0
ok(launch(kernels[0], c_uint64(flag)))
ok(launch(kernels[1], c_uint64(16)))
ok(launch(kernels[2], c_uint64(data), c_uint(1)))
c_uint.from_address(flag).value = 1
print(data, flush=True)
print(sync(), flush=True)
input()
""")
    address, result = int(process.stdout.readline()), process.stdout.readline()
    assert result == "700\n"
    assert used.device.view(address, 4).tolist() == [5, 0, 0, 0]
    process.communicate("\n", timeout=60)


def test_an_endless_kernel_is_stopped(machine):
    used = machine(instruction_limit=10_000)
    out = used.run("""
begin()
flag = alloc(4)
put(flag, [0])
ok(launch(kernel("waits"), c_uint64(flag)))
print(sync())
""")
    assert out == "702\n"
    assert "endless loop" in used.err


def test_invalid_launches_fail_immediately(machine):
    out = machine().run("""
begin()
function = kernel("says")
print(launch(function, block=1025), launch(function, grid=0), launch(None))
print(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 49153, None, None, None))
print(cu.cuFuncSetAttribute(function, 8, 60000), cu.cuFuncSetAttribute(function, 8, 1 << 18))
print(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 60000, None, None, None), sync())
""")
    assert [line for line in out.splitlines() if "hello" not in line] == ["1 1 400", "1", "0 1", "0 0"]


def test_blocks_of_cooperative_launches_share_a_zeroed_workspace_and_all_must_fit(machine):
    """The kernel stores 7 more than the first 8 bytes of the workspace, or 0 without one."""
    out = machine().run("""
begin()
function, to = kernel("workspace"), alloc(8)
def cooperative(blocks):
    places = (c_void_p * 1)(ctypes.addressof(c_uint64(to)))
    return cu.cuLaunchCooperativeKernel(function, blocks, 1, 1, 32, 1, 1, 0, None, places)
put(to, [9, 9])
print(cooperative(2), sync(), *get(to, 2))
print(launch(function, c_uint64(to)), sync(), *get(to, 2))
print(cooperative(1 << 16), sync())
""")
    assert out.split() == ["0", "0", "7", "0", "0", "0", "0", "0", "720", "0"]


def test_copies_and_fills_beyond_an_allocation_fail_and_change_nothing(machine):
    out = machine().run("""
begin()
data = alloc(16)
put(data, [1, 2, 3, 4])
words = (c_uint * 5)()
print(cu.cuMemcpyHtoD_v2(c_uint64(data), words, c_size_t(20)))
print(cu.cuMemcpyDtoH_v2(words, c_uint64(data + 4), c_size_t(16)))
print(cu.cuMemsetD32_v2(c_uint64(data), 9, c_size_t(5)))
print(cu.cuMemcpyHtoD_v2(c_uint64(data - 4096), words, c_size_t(4)))
print(get(data, 4), list(words))
ok(cu.cuMemsetD32_v2(c_uint64(data), 9, c_size_t(3)))
ok(cu.cuMemsetD8_v2(c_uint64(data), 1, c_size_t(2)))
ok(cu.cuMemcpyDtoD_v2(c_uint64(data + 12), c_uint64(data + 4), c_size_t(4)))
print(get(data, 4))
""")
    assert out.splitlines() == ["1"] * 4 + ["[1, 2, 3, 4] [0, 0, 0, 0, 0]", "[257, 9, 9, 9]"]


def test_kernels_output_is_printed_when_the_program_waits(machine):
    out = machine().run("""
begin()
ok(launch(kernel("says"), block=3))
print("launched", flush=True)
ok(sync())
print("done")
""")
    assert out.splitlines() == ["launched", "hello 0", "hello 1", "hello 2", "done"] or out.splitlines() == [
        "hello 0",
        "hello 1",
        "hello 2",
        "launched",
        "done",
    ]


def test_a_modules_variables_are_found_and_its_kernels_listed(machine):
    out = machine().run("""
begin()
module = load()
address, size = c_uint64(), c_size_t()
ok(cu.cuModuleGetGlobal_v2(byref(address), byref(size), module, b"table"))
print(size.value, get(address.value, 3))
print(cu.cuModuleGetGlobal_v2(byref(address), byref(size), module, b"nothing"))
function = c_void_p()
print(cu.cuModuleGetFunction(byref(function), module, b"nothing"))
count, functions, name = c_uint(), (c_void_p * 9)(), ctypes.c_char_p()
ok(cu.cuModuleGetFunctionCount(byref(count), module))
ok(cu.cuModuleEnumerateFunctions(functions, 9, module))
names = []
for one in functions[: count.value]:
    ok(cu.cuFuncGetName(byref(name), c_void_p(one)))
    names.append(name.value.decode())
print(sorted(names))
""")
    names = sorted(re.findall(r"\.entry (\w+)", (HERE / "kernels.ptx").read_text()))
    assert out.splitlines() == ["12 [11, 22, 33]", "500", "500", str(names)]


def test_libraries_work_like_modules_even_before_there_is_a_context(machine):
    out = machine().run("""
ok(cu.cuInit(0))
library, one, context = c_void_p(), c_void_p(), c_void_p()
ok(cu.cuLibraryLoadData(byref(library), PTX, None, None, 0, None, None, 0))
ok(cu.cuLibraryGetKernel(byref(one), library, b"twice"))
ok(cu.cuDevicePrimaryCtxRetain(byref(context), 0))
ok(cu.cuCtxSetCurrent(context))
data = alloc(4)
put(data, [4])
ok(launch(one, c_uint64(data), c_uint(1)))
print(get(data, 1))
ok(cu.cuLibraryUnload(library))
""")
    assert out == "[8]\n"


def test_unloading_and_freeing_releases_all_memory(machine):
    used = machine()
    process = used.start("""
begin()
module, data = load(), alloc(1 << 20)
print("allocated", flush=True)
input()
ok(cu.cuMemFree_v2(c_uint64(data)))
ok(cu.cuModuleUnload(module))
print(cu.cuMemFree_v2(c_uint64(data)), flush=True)
input()
""")
    assert process.stdout.readline() == "allocated\n"
    assert used.device.memory.allocated > 1 << 20
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "1\n"
    assert used.device.memory.allocated == 0
    process.communicate("\n", timeout=60)


def test_memory_freed_in_a_stream_stays_until_the_stream_reaches_the_free(machine):
    out = machine().run("""
begin()
def left():
    free, total = c_size_t(), c_size_t()
    ok(cu.cuMemGetInfo_v2(byref(free), byref(total)))
    return free.value
stream, data, flag, waits = c_void_p(), c_uint64(), host_alloc(4), kernel("waits")
ok(cu.cuStreamCreate(byref(stream), 1))
c_uint.from_address(flag).value = 0
before = left()
ok(cu.cuMemAllocAsync(byref(data), c_size_t(1 << 20), stream))
ok(launch(waits, c_uint64(flag), stream=stream))
ok(cu.cuMemFreeAsync(data, stream))
print(before - left(), cu.cuMemFreeAsync(data, stream))
c_uint.from_address(flag).value = 1
ok(cu.cuStreamSynchronize(stream))
print(before - left())
""")
    assert out.splitlines() == [f"{1 << 20} 1", "0"]


def test_a_killed_process_leaves_nothing_including_its_endless_kernel(machine):
    used = machine()
    process = used.start("""
begin()
flag = alloc(1 << 20)
put(flag, [0])
ok(launch(kernel("waits"), c_uint64(flag)))
print("running", flush=True)
input()
""")
    assert process.stdout.readline() == "running\n"
    assert used.device.memory.allocated > 1 << 20
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert used.left() == 0
    assert used.run("begin()\nprint(sync())") == "0\n"


def test_processes_cannot_access_each_others_memory_through_the_driver(machine):
    used = machine()
    first = used.start(
        "begin()\ndata = alloc(64)\nput(data, [5])\nprint(data, flush=True)\ninput()\nprint(get(data, 1))"
    )
    address = int(first.stdout.readline())
    out = used.run(f"""
begin()
word = c_uint(6)
print(cu.cuMemcpyHtoD_v2(c_uint64({address}), byref(word), c_size_t(4)), cu.cuMemFree_v2(c_uint64({address})))
""")
    assert out == "1 1\n"
    assert first.communicate("\n", timeout=60)[0] == "[5]\n"


def test_in_a_forked_child_calls_fail_and_its_parent_continues(machine):
    out = machine().run("""
begin()
data = alloc(4)
child = os.fork()
if not child:
    print(cu.cuInit(0), sync(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
put(data, [3])
print(get(data, 1))
""")
    assert out.splitlines() == ["3 3", "[3]"]


def test_threads_share_the_processs_objects_and_each_needs_a_current_context(machine):
    out = machine().run("""
import threading
begin()
data, results = alloc(4000), []
function = kernel("twice")
put(data, range(1000))
def work():
    results.append(sync())
    begin()
    for _ in range(5):
        results.append(launch(function, c_uint64(data), c_uint(1000), grid=10, block=100))
    results.append(sync())
threads = [threading.Thread(target=work) for _ in range(3)]
[one.start() for one in threads]
[one.join() for one in threads]
print(sorted(results))
print(get(data, 3))
""")
    assert out.splitlines() == [str([0] * 18 + [201] * 3), str([0, 1 << 15, 2 << 15])]


def test_memory_runs_out_at_the_configured_limit(machine):
    used = machine(options=mock_cuda.DriverOptions(most_bytes=1 << 20))
    out = used.run("""
begin()
free, total = c_size_t(), c_size_t()
alloc(1 << 19)
ok(cu.cuMemGetInfo_v2(byref(free), byref(total)))
print(free.value, total.value)
address = c_uint64()
print(cu.cuMemAlloc_v2(byref(address), c_size_t((1 << 19) + 1)), cu.cuMemAlloc_v2(byref(address), c_size_t(1 << 19)))
print(cu.cuMemAlloc_v2(byref(address), c_size_t(1)))
""")
    assert out.splitlines() == [f"{1 << 19} {1 << 20}", "2 0", "2"]


def test_the_device_clock_has_the_configured_offset_and_drift(machine):
    offset, drift = 5_000_000_000_000, 0.5
    started = time.monotonic_ns()
    used = machine(options=mock_cuda.DriverOptions(clock_offset_ns=offset, clock_drift=drift))
    begun = time.monotonic_ns()
    out = used.run("""
import time
begin()
to, function = alloc(8), kernel("clock")
for _ in range(2):
    before = time.monotonic_ns()
    ok(launch(function, c_uint64(to)))
    ok(sync())
    print((before, *get(to, 1, c_uint64), time.monotonic_ns()))
    time.sleep(0.1)
""")
    for before, device, after in values(out):
        # The server started between `started` and `begun`; a launch begins 2 us after the call.
        assert before + offset + (before - begun) * drift <= device
        assert device <= after + offset + (after - started) * drift + 10_000
    (first, a, first_end), (second, b, second_end) = values(out)
    assert 1.5 * (second - first_end) - 10_000 <= b - a <= 1.5 * (second_end - first) + 10_000


def test_host_memory_has_the_same_address_on_host_and_device(machine):
    out = machine().run("""
begin()
data = host_alloc(40)
for i in range(10):
    c_uint.from_address(data + 4 * i).value = i
address = c_uint64()
ok(cu.cuMemHostGetDevicePointer_v2(byref(address), c_void_p(data), 0))
ok(launch(kernel("twice"), c_uint64(data), c_uint(10), block=32))
ok(sync())
print(address.value == data, [c_uint.from_address(data + 4 * i).value for i in range(10)])
ok(cu.cuMemFreeHost(c_void_p(data)))
""")
    assert out == f"True {[2 * i for i in range(10)]}\n"


def test_if_the_device_addresses_are_occupied_its_memory_is_mapped_elsewhere_and_all_else_works(machine):
    out = machine().run("""
libc = ctypes.CDLL(None)
libc.mmap.restype = c_void_p
taken = libc.mmap(c_void_p(0x7000_0000_0000), c_size_t(4096), 3, 0x100022, -1, c_size_t(0))
begin()
data, host, address = alloc(40), host_alloc(40), c_uint64()
put(data, range(10))
ok(cu.cuMemHostGetDevicePointer_v2(byref(address), c_void_p(host), 0))
(c_uint * 10).from_address(host)[:] = range(10)
for one in (data, address.value):
    ok(launch(kernel("twice"), c_uint64(one), c_uint(10), block=32))
ok(sync())
print(taken == 0x7000_0000_0000, address.value == host)
print(get(data, 10), (c_uint * 10).from_address(host)[:], get(address.value, 10))
ok(cu.cuMemcpyDtoD_v2(c_uint64(data), c_uint64(address.value + 36), c_size_t(4)))
print(get(data, 2), cu.cuMemAllocManaged(byref(address), c_size_t(4), 1))
""")
    doubled = [2 * i for i in range(10)]
    assert out.splitlines() == ["True False", f"{doubled} {doubled} {doubled}", "[18, 2] 801"]


REGISTER = """
begin()
ok(cu.cuMemHostRegister_v2(c_void_p(place), c_size_t(size), 2))
print(cu.cuMemHostRegister_v2(c_void_p(place), c_size_t(size), 2))
address = c_uint64()
ok(cu.cuMemHostGetDevicePointer_v2(byref(address), c_void_p(place), 0))
ok(launch(kernel("twice"), address, c_uint(size // 4), grid=size // 4 // 64 + 1, block=64))
ok(sync())
words = (c_uint * (size // 4)).from_address(place)
print(list(words) == [2 * i for i in range(size // 4)])
copy = (c_uint * (size // 4))()
ok(cu.cuMemcpyDtoH_v2(copy, address, c_size_t(size)))
print(list(copy) == list(words))
ok(cu.cuMemHostUnregister(c_void_p(place)))
print(list(words) == list(copy), cu.cuMemHostUnregister(c_void_p(place)))
words[0] = 17
"""


def test_private_memory_is_registered_in_place_and_its_neighbors_are_unchanged(machine):
    used = machine()
    out = used.run(f"""
whole = (c_uint * 5000)(*[7] * 5000)
place, size = ctypes.addressof(whole) + 400, 4096 * 3 + 8
for i in range(size // 4):
    whole[100 + i] = i
{REGISTER}
print(set(whole[:100]), set(whole[100 + size // 4 :]), whole[100])
""")
    assert out.splitlines() == ["712", "True", "True", "True 713", "{7} {7} 17"]
    assert used.left() == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: only root sees physical pages in /proc/self/pagemap")
def test_shared_memory_is_registered_through_its_file(machine):
    out = machine().run(f"""
import mmap
shorter = os.memfd_create("what another part of the process keeps in memory")
decoy, file = os.memfd_create("decoy"), os.memfd_create("file")
size = 8192
for one in (decoy, file):
    os.ftruncate(one, size)
mapping, other = mmap.mmap(file, size), mmap.mmap(decoy, size)
again = mmap.mmap(file, size)
place = ctypes.addressof(c_ubyte.from_buffer(mapping))
(c_uint * (size // 4)).from_address(place)[:] = range(size // 4)
{REGISTER}
print((c_uint * 3).from_buffer(again)[:], (c_uint * 3).from_buffer(other)[:])
""")
    assert out.splitlines() == ["712", "True", "True", "True 713", "[17, 2, 4] [0, 0, 0]"]


def test_pointer_attributes_describe_the_memory(machine):
    out = machine().run("""
begin()
data, host = alloc(100), host_alloc(50)
def ask(attribute, address, kind=c_uint64):
    value = kind()
    result = cu.cuPointerGetAttribute(byref(value), attribute, c_uint64(address))
    return result or value.value
print(ask(2, data, c_uint), ask(2, host, c_uint), ask(12, data + 5))
print(ask(3, data + 99) == data + 99, ask(11, host + 7) == host)
print(ask(3, data + 100), ask(3, 4096))
base, size = c_uint64(), c_size_t()
ok(cu.cuMemGetAddressRange_v2(byref(base), byref(size), c_uint64(data + 50)))
print(base.value == data, size.value)
""")
    assert out.splitlines() == ["2 1 100", "True True", "1 1", "True 100"]


GRAPH = """
begin()
stream, graph, made, status = c_void_p(), c_void_p(), c_void_p(), c_int()
ok(cu.cuStreamCreate(byref(stream), 1))
data, n, calls = alloc(40), c_uint(10), []
put(data, [7] * 10)
called = ctypes.CFUNCTYPE(None, c_void_p)(calls.append)
ok(cu.cuStreamBeginCapture_v2(stream, 0))
ok(cu.cuStreamIsCapturing(stream, byref(status)))
"""


def test_captured_work_runs_only_when_the_graph_is_launched_and_then_in_order(machine):
    out = machine().run(f"""
{GRAPH}
ok(cu.cuMemsetD32Async(c_uint64(data), 3, c_size_t(9), stream))
ok(launch(kernel("twice"), c_uint64(data), n, block=32, stream=stream))
ok(cu.cuMemcpyDtoDAsync_v2(c_uint64(data + 36), c_uint64(data), c_size_t(4), stream))
ok(cu.cuLaunchHostFunc(stream, called, 5))
print(status.value, cu.cuStreamSynchronize(stream), cu.cuStreamBeginCapture_v2(stream, 0))
ok(cu.cuStreamEndCapture(stream, byref(graph)))
ok(cu.cuStreamIsCapturing(stream, byref(status)))
print(status.value, get(data, 10), calls, cu.cuStreamEndCapture(stream, byref(graph)))
ok(cu.cuGraphInstantiateWithFlags(byref(made), graph, c_uint64(0)))
ok(cu.cuGraphDestroy(graph))
ok(cu.cuGraphLaunch(made, stream))
print(get(data, 10), calls)
put(data, range(10))
ok(cu.cuGraphLaunch(made, None))
ok(sync())
print(get(data, 10), calls)
ok(cu.cuGraphExecDestroy(made))
""")
    assert out.splitlines() == [
        "1 900 401",
        f"0 {[7] * 10} [] 401",
        f"{[6] * 10} [5]",
        f"{[6] * 10} [5, 5]",
    ]


def test_a_graph_runs_in_the_stream_it_is_launched_in(machine):
    out = machine().run(f"""
{GRAPH}
flag = host_alloc(4)
c_uint.from_address(flag).value = 0
ok(launch(kernel("waits"), c_uint64(flag), stream=stream))
ok(cu.cuStreamEndCapture(stream, byref(graph)))
ok(cu.cuGraphInstantiateWithFlags(byref(made), graph, c_uint64(0)))
ok(cu.cuGraphLaunch(made, None))
print(cu.cuStreamQuery(None), cu.cuStreamQuery(stream))
c_uint.from_address(flag).value = 1
ok(cu.cuStreamSynchronize(None))
print(c_uint.from_address(flag).value)
""")
    assert out.splitlines() == ["600 0", "2"]


def test_a_graphs_user_objects_live_as_long_as_its_copies(machine):
    out = machine().run(f"""
{GRAPH}
ok(cu.cuStreamEndCapture(stream, byref(graph)))
tied = c_void_p()
ok(cu.cuUserObjectCreate(byref(tied), c_void_p(9), called, 1, 1))
ok(cu.cuGraphRetainUserObject(graph, tied, 1, 1))
ok(cu.cuGraphInstantiateWithFlags(byref(made), graph, c_uint64(0)))
ok(cu.cuGraphReleaseUserObject(graph, tied, 1))
print(cu.cuGraphReleaseUserObject(graph, tied, 1), calls)
ok(cu.cuGraphDestroy(graph))
print(calls)
ok(cu.cuGraphExecDestroy(made))
print(calls)
""")
    assert out.splitlines() == ["1 []", "[]", "[9]"]


def test_functions_are_found_by_name_and_version(machine):
    out = machine().run("""
def find(name, version):
    found, status = c_void_p(), c_int(-1)
    result = cu.cuGetProcAddress_v2(name.encode(), byref(found), version, c_uint64(0), byref(status))
    return result, status.value, found.value
def is_(name, version, symbol):
    return find(name, version)[2] == ctypes.cast(getattr(cu, symbol), c_void_p).value
print(is_("cuMemAlloc", 12000, "cuMemAlloc_v2"), is_("cuInit", 2000, "cuInit"))
print(is_("cuCtxCreate", 11000, "cuCtxCreate_v2"), is_("cuCtxCreate", 11040, "cuCtxCreate_v3"))
print(is_("cuCtxCreate", 13000, "cuCtxCreate_v4"), is_("cuCtxSynchronize", 12090, "cuCtxSynchronize"))
print(is_("cuGetProcAddress", 12000, "cuGetProcAddress_v2"), is_("cuGetProcAddress", 11030, "cuGetProcAddress"))
print(is_("cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags"), find("cuGraphInstantiate", 11040)[0] == 500)
print(find("cuMemAllo", 12000), find("cuMemAlloc_v", 12000))
""")
    assert out.splitlines() == ["True True"] * 5 + ["(500, 1, None) (500, 1, None)"]


def test_every_function_of_the_library_is_found_by_name():
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", library_build.library()], capture_output=True, text=True, check=True
    )
    exported = {line.split()[-1] for line in symbols.stdout.splitlines()} - {"accel_mock_cuda_reset"}
    listed = set(
        re.findall(r"EACH\((\w+), \d+\)", (Path(library_build.__file__).parent / "driver" / "procs.c").read_text())
    )
    assert exported == listed | {"cuGetProcAddress", "cuGetProcAddress_v2"}
    assert all(name.startswith("cu") for name in exported)


def test_results_have_their_names(machine):
    out = machine().run("""
name = ctypes.c_char_p()
for result in (0, 2, 700, 201):
    ok(cu.cuGetErrorName(result, byref(name)))
    print(name.value.decode())
print(cu.cuGetErrorName(12345, byref(name)))
""")
    assert out.split() == [
        "CUDA_SUCCESS",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_INVALID_CONTEXT",
        "1",
    ]


def test_machine_code_is_rejected_unless_the_server_knows_its_ptx(machine):
    used = machine()
    cubin = b"\x7fELF\2\1\1" + bytes(9 + 48) + b"machine code"
    script = f"begin()\nmodule = c_void_p()\nprint(cu.cuModuleLoadData(byref(module), {cubin!r}))"
    assert used.run(script) == "209\n"
    assert "without the PTX that it was made from" in used.err
    used.server.known_cubin(cubin[:64], (HERE / "kernels.ptx").read_text())
    assert used.run(script) == "0\n"
    assert used.err == ""


def test_the_ptx_of_a_fatbin_is_used(machine):
    out = machine().run(f"""
begin()
module = load(Path({str(FATBIN)!r}).read_bytes())
count = c_uint()
ok(cu.cuModuleGetFunctionCount(byref(count), module))
print(count.value)
""")
    assert out == "2\n"


def test_unsupported_ptx_is_rejected_with_the_line(machine):
    used = machine()
    text = (HERE / "kernels.ptx").read_text().replace("trap;", "frobnicate.u32 1;").encode()
    out = used.run(f"begin()\nmodule = c_void_p()\nprint(cu.cuModuleLoadData(byref(module), {text!r}))")
    assert out == "218\n"
    assert "frobnicate" in used.err
    log = used.run(f"""
begin()
module, log = c_void_p(), ctypes.create_string_buffer(40)
options, values = (c_int * 2)(5, 6), (c_void_p * 2)(ctypes.addressof(log), 40)
print(cu.cuModuleLoadDataEx(byref(module), {text!r}, 2, options, values), log.value.decode())
""")
    assert log == f"218 {used.err[:39]}\n"


def test_programs_that_use_cudart_get_the_reason_why_they_cannot_run(machine):
    used = machine()
    used.run("""
found, status = c_void_p(), c_int()
for _ in range(2):
    cu.cuGetProcAddress_v2(b"", byref(found), 0, c_uint64(0), byref(status))
table = c_void_p()
print(cu.cuGetExportTable(byref(table), bytes(16)))
""")
    assert used.err.count("cudart works only with NVIDIA's own driver") == 1


def test_a_client_with_another_protocol_is_disconnected_and_does_no_harm(machine, monkeypatch):
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    used = machine()
    for message in (b"", b"GET / HTTP/1.0\r\n\r\n" * 10, bytes(200), b"\xff" * 64):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(20)
            local_socket.connect_in(stranger, used.server.name)
            stranger.sendall(message)
            stranger.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(100) == b""
    assert raised == []
    assert used.run("begin()\nprint(sync())") == "0\n"


def test_after_the_server_ends_calls_fail_and_nothing_is_left(machine):
    before = threading.active_count()
    used = machine()
    process = used.start('begin()\nalloc(64)\nprint("there", flush=True)\ninput()\nprint(sync(), sync())')
    assert process.stdout.readline() == "there\n"
    used.server.close()
    assert process.communicate("\n", timeout=60)[0] == "4 4\n"
    assert used.device.memory.allocated == 0
    assert threading.active_count() == before
    assert not Path(used.server.name).parent.exists()


def test_an_internal_error_is_reported_and_the_program_continues(machine):
    class Broken:
        def rewrite(self, _kernel):
            raise RuntimeError("ours")

    used = machine(observer=Broken())
    assert used.run("begin()\nmodule = c_void_p()\nprint(cu.cuModuleLoadData(byref(module), PTX), sync())") == "999 0\n"
    assert "RuntimeError: ours" in used.err


def test_unknown_handles_are_rejected(machine):
    out = machine().run("""
begin()
module, data = load(), alloc(4)
ok(cu.cuModuleUnload(c_void_p(module.value)))
print(cu.cuMemFree_v2(c_uint64(data + 1)), cu.cuMemFree_v2(c_uint64(0)), cu.cuStreamDestroy_v2(None))
""")
    assert out == "1 0 400\n"


def test_a_process_has_one_mock_driver_at_a_time():
    script = """
import ctypes
from accel_magic.errors import TraceStateError
from accel_magic.devices import mock_cuda
count = ctypes.c_int()
for _ in range(2):
    with mock_cuda.driver():
        cu = ctypes.CDLL("libcuda.so.1")
        print(cu.cuDeviceGetCount(ctypes.byref(count)), count.value)
        try:
            with mock_cuda.driver():
                pass
        except TraceStateError as error:
            print(error.code)
    print(cu.cuDeviceGetCount(ctypes.byref(count)))
"""
    out = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert out.splitlines() == ["0 1", "mock.in-use", "3"] * 2


def test_without_a_server_there_is_no_device():
    script = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library_build.library().parent)}
    assert subprocess.check_output([sys.executable, "-c", script], env=environment, text=True) == "100\n"


def test_without_a_c_compiler_the_error_names_the_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path))
    with raises("native.no-compiler", MachineError, match="apt install gcc"):
        library_build.library()


def test_a_compiler_that_fails_is_quoted(monkeypatch, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho warning: odd >&2\necho stdio.h: error: not found >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path))
    with raises("native.not-compiled", MachineError, match=r"stdio\.h: error: not found"):
        library_build.library()
    assert list(tmp_path.rglob("libcuda*")) == []
