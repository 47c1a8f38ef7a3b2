"""PyOpenCL: which kernels are traced, whatever their programs were built from, and what is left as it was."""

import ast
import shlex
import subprocess
import sys

import pytest

pytestmark = pytest.mark.component

SETUP = """
data = np.arange(64, dtype="f4")
a, c = buffer(data), buffer(0 * data)
many = np.uint32(64)

def traced(action, tool="kernelcount", **options):
    with gputrace(tool, device="opencl", **options) as trace:
        action()
        queue.finish()
    result = trace.result
    table = result.tools[tool]
    return {
        "rows": table[["name", "launches", "threads"]].to_numpy().tolist() if tool == "kernelcount" else None,
        "reasons": {row.name: row.reason for row in result.kernels.itertuples() if row.reason},
        "launches": result.launches[["name", "grid_x", "block_x"]].to_numpy().tolist(),
        "notes": list(result.recording.notes),
    }
"""


def test_programs_built_before_and_within_the_cell_are_traced(run):
    found = run(
        SETUP
        + """
before = cl.Program(context, SOURCE).build()
kernel = before.add
def go():
    kernel(queue, (64,), (16,), a, a, c, many)
    cl.Program(context, SOURCE).build().add(queue, (64,), (32,), a, a, c, many)
answer(**traced(go), right=bool((content(c, data) == 2 * data).all()))
"""
    )
    assert found["right"]
    assert found["rows"] == [["add", 1, 64], ["add", 1, 64]] or sum(row[2] for row in found["rows"]) == 128
    assert found["launches"] == [["add", 4, 16], ["add", 2, 32]]
    assert found["reasons"] == {}


def test_a_program_that_was_loaded_from_pyopencls_cache_is_traced_from_its_source(run):
    script = (
        SETUP
        + """
program = cl.Program(context, SOURCE + "// cached\\n").build()
kernel = program.add
answer(**traced(lambda: kernel(queue, (64,), (16,), a, a, c, many)), cached=program._build_duration_info)
"""
    )
    run(script)
    found = run(script)
    assert found["rows"] == [["add", 1, 64]]


def test_a_program_without_its_source_runs_as_it_is_and_says_so(run):
    found = run(
        SETUP
        + """
devices = context.devices
binaries = cl.Program(context, SOURCE).build().get_info(cl.program_info.BINARIES)
program = cl.Program(context, devices, binaries).build()
kernel = program.add
found = traced(lambda: kernel(queue, (64,), (16,), a, a, c, many))
answer(**found, right=bool((content(c, data) == 2 * data).all()))
"""
    )
    assert found["right"]
    assert found["rows"] == []
    assert found["reasons"] == {"add": "its program was loaded as a binary, and its source is gone"}


def test_a_program_that_was_released_runs_as_it_is_and_says_so(run):
    found = run(
        SETUP
        + """
kernel = cl.Program(context, SOURCE).build().add
found = traced(lambda: kernel(queue, (64,), (16,), a, a, c, many))
answer(**found, right=bool((content(c, data) == 2 * data).all()))
"""
    )
    assert found["right"]
    # The runtime decides whether a kernel keeps its program.
    assert found["rows"] == [["add", 1, 64]] or "its program is gone" in found["reasons"]["add"]


def test_kernels_that_pyopencl_has_cached_in_an_earlier_cell_are_traced(run):
    found = run(
        SETUP
        + """
import pyopencl.array
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "accel_magic")
numbers = pyopencl.array.to_device(queue, data)
def twice():
    return (numbers * 2 + 1).get()
plain = twice()
found = traced(twice)
shell.run_line_magic("unload_ext", "accel_magic")
answer(**found, right=bool((twice() == plain).all()), own=cl.Program.__getattr__.__module__.startswith("accel_magic"))
"""
    )
    assert found["right"]
    assert found["reasons"] == {}
    assert found["rows"][0][:2] == ["axpb", 2]
    assert not found["own"]


def test_arguments_that_are_set_apart_from_the_launch_reach_the_copy(run):
    found = run(
        SETUP
        + """
program = cl.Program(context, SOURCE).build()
kernel = program.add
def go():
    kernel.set_args(a, a, c, many)
    cl.enqueue_nd_range_kernel(queue, kernel, (64,), (16,))
answer(**traced(go), right=bool((content(c, data) == 2 * data).all()))
"""
    )
    assert found["right"]
    assert found["rows"] == [["add", 1, 64]]


def test_arguments_from_before_the_cell_are_not_guessed(run):
    found = run(
        SETUP
        + """
program = cl.Program(context, SOURCE).build()
kernel = program.add
kernel.set_args(a, a, c, many)
found = traced(lambda: cl.enqueue_nd_range_kernel(queue, kernel, (64,), (16,)))
answer(**found, right=bool((content(c, data) == 2 * data).all()))
"""
    )
    assert found["right"]
    assert found["rows"] == []
    assert found["reasons"]["add"] == "some of its arguments were set before the cell"


def test_spirv_that_the_user_brings_is_traced(run):
    found = run(
        SETUP
        + """
from accel_magic.gpu.codegen import opencl_c
program = cl.Program(context, opencl_c.compiled(SOURCE, (), (1, 2)).code).build()
def go():
    program.add(queue, (64,), None, a, a, c, many)
answer(**traced(go), right=bool((content(c, data) == 2 * data).all()))
"""
    )
    assert found["right"]
    assert found["rows"] == [["add", 1, 64]]
    ((name, groups, items),) = found["launches"]
    assert (name, groups * items) == ("add", 64)


def test_arrays_and_their_generated_kernels_are_traced(run):
    found = run(
        SETUP
        + """
import pyopencl.array
x = cl.array.to_device(queue, np.arange(1000, dtype="f4"))
results = []
found = traced(lambda: results.append((2 * x + x).get()))
answer(**found, right=bool((results[0] == 3 * np.arange(1000, dtype="f4")).all()))
"""
    )
    assert found["right"]
    assert sum(launches for _, launches, _ in found["rows"]) >= 1


@pytest.mark.parametrize("sharing", ["unified", "buffers"])
def test_maps_are_in_the_context_of_devices_that_do_not_access_all_memory(run, sharing):
    found = run(
        SETUP
        + f"""
from dataclasses import replace
from accel_magic.devices.opencl import opencl_library
from_driver = opencl_library._device
def masked(*given):
    device = from_driver(*given)
    fewer = set() if {sharing!r} == "unified" else {{"cl_intel_unified_shared_memory"}}
    return replace(device, shared_memory=device.shared_memory & ~4, extensions=device.extensions - fewer)
opencl_library._device = masked
assert opencl_library.chosen(None).sharing == {sharing!r}
program = cl.Program(context, SOURCE).build()
kernel = program.add
other = cl.Context(context.devices)
distant = cl.Program(other, SOURCE).build()
elsewhere = distant.add
own = cl.CommandQueue(other)
again = cl.Buffer(other, cl.mem_flags.COPY_HOST_PTR, hostbuf=data)
"""
        + """
def both():
    for _ in range(3):
        kernel(queue, (64,), (16,), a, a, c, many)
    elsewhere(own, (64,), (16,), again, again, again, many)
    own.finish()
counted = traced(both)
with gputrace(COUNT, "pagetrace", device="opencl") as trace:
    for _ in range(3):
        kernel(queue, (64,), (16,), a, a, c, many)
    queue.finish()
    running = int(trace.maps_now()["entries"].value.sum())
result = trace.result
pages = result.tools["pagetrace"]
kernel(queue, (64,), (16,), a, a, c, many)
answer(
    **counted,
    right=bool((content(c, data) == 2 * data).all()),
    running=running,
    bytes=int(result.maps["accesses"].bytes.sum()),
    pages=pages.groupby("launch").size().tolist(),
)
"""
    )
    assert found["right"]
    assert found["rows"] == [["add", 3, 3 * 64]]
    reason = "its context is another one than that of the first traced kernel, where the maps are"
    assert found["reasons"] == {"add": reason}
    assert found["running"] == 3 * 64
    assert found["bytes"] == 3 * 64 * 3 * 4
    assert len(found["pages"]) == 3
    assert len(set(found["pages"])) == 1


def test_sources_see_the_devices_version_of_opencl(run):
    found = run(
        SETUP
        + """
SOURCE = '''
#if __OPENCL_VERSION__ >= 200 && defined(__ENDIAN_LITTLE__) && __OPENCL_C_VERSION__ >= 120
kernel void version(global int *out)
{
    out[get_global_id(0)] = __OPENCL_VERSION__;
}
#endif
'''
program = cl.Program(context, SOURCE).build()
out = buffer(np.zeros(64, "i4"))
program.version(queue, (64,), (16,), out)
plain = content(out, np.zeros(64, "i4"))
again = buffer(np.zeros(64, "i4"))
found = traced(lambda: program.version(queue, (64,), (16,), again))
answer(**found, right=bool((content(again, plain) == plain).all()))
"""
    )
    assert found["reasons"] == {}
    assert found["rows"] == [["version", 1, 64]]
    assert found["right"]


def test_headers_of_pyopencl_are_found_as_when_it_builds_the_program(run, tmp_path):
    (tmp_path / "mine.h").write_text("#define STEP 3\n")
    found = run(
        SETUP
        + """
SOURCE = '''
#include <pyopencl-complex.h>
#include "mine.h"
kernel void squares(global const cfloat_t *from, global cfloat_t *to)
{
    to[get_global_id(0)] = cfloat_mulr(cfloat_mul(from[get_global_id(0)], from[get_global_id(0)]), STEP);
}
'''
numbers = (data + 2j).astype("c8")
given, to = buffer(numbers), buffer(0 * numbers)
def both():
    program = cl.Program(context, SOURCE).build(["-I", sys.argv[1]])
    program.squares(queue, (64,), (16,), given, to)
found = traced(both)
answer(**found, right=bool(np.allclose(content(to, numbers), 3 * numbers ** 2)))
""",
        tmp_path,
    )
    assert found["reasons"] == {}
    assert found["rows"] == [["squares", 1, 64]]
    assert found["right"]


# What clang's optimizer makes of the first are vectors of truth values, which SPIR-V lacks.
COMPARING = """kernel void outside(global const float4 *from, global float *to)
{
    float4 here = from[get_global_id(0)];

    to[get_global_id(0)] = here.x < 0 || here.y < 0 || here.z < 0 || here.w < 0 ? 1 : 2;
}
"""


def test_conditions_on_the_parts_of_a_vector_are_translated(run):
    found = run(
        f"COMPARING = {COMPARING!r}\n"
        + SETUP
        + """
import accel_magic.gpu.codegen.opencl_c as opencl_c
everything, results = opencl_c.compilers(), {}
for one in everything:
    opencl_c.compilers = lambda: (one,)
    points = np.random.default_rng(1).random((64, 4)).astype("f4") - 0.2
    to = buffer(0 * data)
    def both():
        cl.Program(context, COMPARING).build().outside(queue, (64,), (16,), buffer(points), to)
    found = traced(both)
    expected = np.where((points < 0).any(axis=1), 1, 2)
    results[one.clang] = [found["rows"], found["reasons"], bool((content(to, data) == expected).all())]
answer(**results)
"""
    )
    assert list(found.values()) == [[[["outside", 1, 64]], {}, True]] * len(found)


COPYING = """kernel void reversed(global const float *from, global float *to, local float *part)
{
    event_t copied = async_work_group_copy(part, from + get_group_id(0) * 16, 16, 0);

    wait_group_events(1, &copied);
    to[get_global_id(0)] = part[15 - get_local_id(0)];
}
"""


def test_copies_by_work_groups_are_translated(run):
    found = run(
        f"COPYING = {COPYING!r}\n"
        + SETUP
        + """
import accel_magic.gpu.codegen.opencl_c as opencl_c
everything, results = opencl_c.compilers(), {}
for one in everything:
    opencl_c.compilers = lambda: (one,)
    to = buffer(0 * data)
    def both():
        cl.Program(context, COPYING).build().reversed(queue, (64,), (16,), a, to, cl.LocalMemory(64))
    found = traced(both)
    expected = data.reshape(4, 16)[:, ::-1].ravel()
    results[one.clang] = [found["rows"], found["reasons"], bool((content(to, data) == expected).all())]
answer(**results)
"""
    )
    assert list(found.values()) == [[[["reversed", 1, 64]], {}, True]] * len(found)


# As if it was too long for clang to inline, which would leave it to another file, as C does.
INLINE = """__attribute__((noinline)) inline int looped(global const int *from, int count)
{
    int sum = 0;

    for (int i = 0; i < count; i++) {
        if (from[i] % 3 == 1)
            sum += from[i] * i;
        else if (from[i] % 5 == 2)
            sum -= i;
        for (int j = 0; j < from[i] % 7; j++)
            sum ^= from[(i + j) % count];
    }
    return sum;
}

kernel void twice(global const int *from, global int *to)
{
    int i = get_global_id(0);

    to[i] = looped(from, i) + looped(from + 1, i / 2) * looped(from, 3);
}
"""


def test_inline_functions_are_a_part_of_the_program(run):
    found = run(
        f"INLINE = {INLINE!r}\n"
        + SETUP
        + """
numbers = np.random.default_rng(2).integers(0, 1000, 64).astype("i4")
program = cl.Program(context, INLINE).build()
given, plain, to = buffer(numbers), buffer(0 * numbers), buffer(0 * numbers)
program.twice(queue, (64,), (16,), given, plain)
found = traced(lambda: program.twice(queue, (64,), (16,), given, to), "memtrace")
answer(**found, same=bool((content(to, numbers) == content(plain, numbers)).all()))
"""
    )
    assert found["same"]
    assert found["reasons"] == {}


def test_programs_at_many_places_are_called_which_a_note_says(run):
    found = run(
        SETUP
        + """
def found_at(places):
    lines = "".join(f"if (i % {number + 2} == 0) to[i] += from[{number}];" for number in range(places))
    source = f"kernel void many(global const float *from, global float *to) {{ size_t i = get_global_id(0); {lines} }}"
    to = buffer(0 * data)
    with gputrace("memtrace", device="opencl") as trace:
        cl.Program(context, source).build().many(queue, (64,), (16,), a, to)
        queue.finish()
    table = trace.result.tools["memtrace"].query("operation == 'load'")
    items = np.arange(64)
    expected = sum(np.where(items % (number + 2) == 0, data[number], 0) for number in range(places))
    right = bool((content(to, data) == expected).all())
    taken = sum(int((items % (number + 2) == 0).sum()) for number in range(places))
    return right, int(table.lanes.sum()) >= taken, list(trace.result.recording.notes), len(trace.result.sites)
answer(few=found_at(5), many=found_at(60))
"""
    )
    assert found["few"][:3] == [True, True, []]
    right, counted, notes, sites = found["many"]
    assert (right, counted) == (True, True)
    assert sites > 32
    assert "programs are called at more than 32 places" in notes[0]


def test_what_does_not_compile_for_spirv_runs_as_it_is(run):
    found = run(
        SETUP
        + """
program = cl.Program(context, SOURCE).build()
import accel_magic.gpu.codegen.opencl_c as opencl_c
from accel_magic.errors import ProgramError
def refuse(*_):
    raise ProgramError("no", why="error: a function of the vendor", fix="none", code="opencl.not-compiled")
opencl_c.compiled = refuse
found = traced(lambda: program.add(queue, (64,), (16,), a, a, c, many))
answer(**found, right=bool((content(c, data) == 2 * data).all()))
"""
    )
    assert found["right"]
    assert found["reasons"] == {"add": "error: a function of the vendor"}


def test_kernels_filter_and_other_tools(run):
    found = run(
        SETUP
        + """
program = cl.Program(context, SOURCE).build()
kernel = program.add
answer(
    other=traced(lambda: kernel(queue, (64,), (16,), a, a, c, many), kernel="transpose"),
    memtrace=traced(lambda: kernel(queue, (64,), (16,), a, a, c, many), "threadhist")["launches"],
)
"""
    )
    assert found["other"]["rows"] == []
    assert found["other"]["reasons"]["add"] == "not selected"
    assert found["memtrace"] == [["add", 4, 16]]


def test_warps_are_sub_groups_of_the_devices_size(run):
    found = run(
        SETUP
        + """
program = cl.Program(context, SOURCE).build()
with gputrace("threadhist", device="opencl") as trace:
    program.add(queue, (64,), (32,), a, a, c, many)
    queue.finish()
table = trace.result.tools["threadhist"]
size = int(trace.result.launches.lanes[0])
expected = table.thread % 32 // size
with gputrace("threadhist", device="opencl") as trace:
    program.transpose(queue, (8, 8), (4, 4), a, c, np.uint32(8), np.uint32(8))
    queue.finish()
flat = trace.result.tools["threadhist"]
answer(size=size, same=bool((table.warp == expected).all()), rows=len(table), unknown=int(flat.warp.isna().sum()))
"""
    )
    assert 1 < found["size"] <= 32
    assert found["same"]
    assert (found["rows"], found["unknown"]) == (64, 64)


def test_sectors_and_branches_are_those_that_numpy_finds_for_each_sub_group(run):
    found = run(
        SETUP
        + """
source = '''kernel void gather(global const uint *from, global const uint *where, global uint *to)
{
    size_t i = get_global_id(0);
    if (where[i] != 0xffffffff)
        to[i] = from[where[i]];
}'''
items, groups = 1200, 200
far = np.random.default_rng(5).permutation(1 << 16)[:items]
here = np.arange(items)
orders = {"ascending": here, "descending": here[::-1], "same": here * 0, "strided": here * 8, "random": far}
orders["sparse"] = np.where(here % 3 == 1, here, 0xffffffff)
orders["sparse and random"] = np.where(far % 5 > 1, far, 0xffffffff)
program = cl.Program(context, source).build()
words = cl.Buffer(context, cl.mem_flags.READ_WRITE, 1 << 18)
seen, expected = {}, {}
for name, order in orders.items():
    where = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=order.astype("u4"))
    with gputrace("memtrace", "branchdiv", "kernelcount", device="opencl") as trace:
        program.gather(queue, (items,), (groups,), words, where, words)
        queue.finish()
    result = trace.result
    size = int(result.launches.lanes[0])
    access = result.tools["memtrace"].query("operation == 'load'").sort_values("site").iloc[-1]
    branch = result.tools["branchdiv"].iloc[0]
    counted = result.tools["kernelcount"].iloc[0]
    warps = [part for group in order.reshape(-1, groups) for part in np.split(group, range(size, groups, size))]
    loads = [part[part != 0xffffffff] for part in warps]
    took = [len(part) in (0, len(warp)) for part, warp in zip(loads, warps)]
    seen[name] = [access.requests, access.lanes, access.sectors, branch.warps, branch.split, branch.lanes]
    seen[name] += [min(branch.taken, branch.lanes - branch.taken), counted.warps, counted.threads]
    lanes = sum(map(len, loads))
    expected[name] = [sum(map(bool, map(len, loads))), lanes, sum(len(set(part // 8)) for part in loads)]
    expected[name] += [len(warps), took.count(False), items, min(lanes, items - lanes), len(warps), items]
answer(seen={name: list(map(int, row)) for name, row in seen.items()}, size=size,
       expected={name: list(map(int, row)) for name, row in expected.items()})
"""
    )
    assert found["seen"] == found["expected"]


def test_no_opencl_device_is_a_typed_error(run):
    found = run(
        """
from accel_magic.devices.opencl import opencl_library
from accel_magic.errors import MachineError
try:
    opencl_library.chosen(99)
except MachineError as error:
    answer(what=error.what, why=error.why, fix=error.fix)
"""
    )
    assert found["what"] == "OpenCL has no device 99"
    assert "fits" in found["why"]
    assert found["fix"] == "choose another device: --gpu 0"


def test_launches_have_their_numbers_and_their_kernels(run):
    found = run(
        SETUP
        + """
first, second = (cl.Program(context, SOURCE).build() for _ in range(2))
kernels = [first.add, second.add]
with gputrace("pagetrace", "launchlate", device="opencl") as trace:
    for turn in range(6):
        kernels[turn % 2](queue, (64 * (turn + 1),), (64,), a, a, c, many)
    queue.finish()
result = trace.result
pages = result.tools["pagetrace"]
answer(
    launches=result.launches[["device_launch", "kernel", "grid_x"]].to_numpy().tolist(),
    late=result.tools["launchlate"]["launch"].tolist(),
    positive=bool((result.tools["launchlate"]["late_ns"] > 0).all()),
    pages=sorted(set(pages["launch"].tolist())),
    kernels=pages.groupby("launch")["kernel"].unique().map(len).tolist(),
    numbers=sorted(set(pages["kernel"].tolist())),
)
"""
    )
    kernels = found["numbers"]
    assert len(kernels) == 2
    assert found["launches"] == [[turn + 1, kernels[turn % 2], turn + 1] for turn in range(6)]
    assert found["late"] == found["pages"] == list(range(6))
    assert found["kernels"] == [1] * 6
    assert found["positive"]  # the clock in kernels is the host's


def test_policies_are_tried_on_the_pages_of_opencl_kernels(run):
    found = run(
        SETUP
        + """
import accel_magic
large = np.ones(1 << 16, "f4")
many = np.uint32(len(large))
one, two = buffer(large), buffer(large)
program = cl.Program(context, SOURCE).build()
with gputrace("pagetrace", device="opencl") as trace:
    program.add(queue, (len(large),), (64,), one, one, two, many)
    queue.finish()
tried = accel_magic.gpupolicy(["lru", "fifo"], trace.result, memory="60%")
counts = tried.counts.reset_index()
answer(
    policies=sorted(counts.policy),
    accesses=len(trace.result.tools["pagetrace"]),
    faults=counts.faults.astype(int).tolist(),
)
"""
    )
    assert {"lru", "fifo"} <= set(found["policies"])
    assert found["accesses"] == 3 * (1 << 16) // 16
    assert all(faults > 0 for faults in found["faults"])


def test_a_race_is_found_and_none_after_it_is_mended(run):
    found = run(
        SETUP
        + """
RACE = '''
kernel void turn(global const float *from, global float *to, local float *part) {
    size_t i = get_local_id(0), last = get_local_size(0) - 1;
    part[i] = from[get_global_id(0)];
    BARRIER
    to[get_global_id(0)] = part[last - i];
}'''
def races(source):
    program = cl.Program(context, source).build()
    with gputrace("races", device="opencl") as trace:
        program.turn(queue, (64,), (32,), a, c, cl.LocalMemory(128))
        queue.finish()
    table = trace.result.tools["races"]
    return table[["kind", "space", "operation", "other"]].to_numpy().tolist()
answer(
    wrong=races(RACE.replace("BARRIER", "")),
    right=races(RACE.replace("BARRIER", "barrier(CLK_LOCAL_MEM_FENCE);")),
)
"""
    )
    assert ["race", "shared", "store", "load"] in found["wrong"]
    assert found["right"] == []


def test_a_tool_that_needs_the_multiprocessor_is_refused(run):
    found = run(
        SETUP
        + """
from accel_magic.errors import ProgramError
try:
    gputrace("blocktime", device="opencl").prepare()
except ProgramError as error:
    answer(what=error.what, code=error.code)
"""
    )
    assert found["what"] == "blocktime uses helpers that OpenCL devices do not have: gpu_sm_id"
    assert found["code"] == "gpu.unsupported-helper"


def test_the_doctor_lists_devices_or_says_why_there_are_none(runtime, tmp_path):
    script = "from accel_magic.gpu.requirements import look_for_opencl as look; print(look())"
    without = runtime | {"OCL_ICD_VENDORS": str(tmp_path)}
    there, none = (
        subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True).stdout
        for env in (runtime, without)
    )
    assert "(Intel(R) OpenCL), SPIR-V 1.0 to " in there
    assert "no OpenCL device can be traced" in none
    command = ast.literal_eval(none[none.index("fix=") + 4 :].rstrip().removesuffix(")")).partition("run: ")[2]
    mended = f"{command} && {shlex.quote(sys.executable)} -c {shlex.quote(script)}"
    env = without | {"HOME": str(tmp_path)}
    shown = subprocess.run(["sh", "-c", mended], env=env, capture_output=True, text=True, check=True).stdout
    assert shown == there


SUM = """
kernel void rows(global const int *in, global int *out, uint size) {
    uint row = get_global_id(0), length = row < 16 ? 6400 : 64;
    int sum = 0;
    for (uint i = 0; i < length; i++) sum += in[(row * 7 + i) % size] >> (i & 3);
    out[row] = sum;
}"""


def test_what_llvm_spirv_refuses_is_translated_by_llvm_itself(run):
    found = run(
        f"SUM = {SUM!r}\n"
        + SETUP
        + """
numbers, results = np.arange(4096, dtype="i4"), np.zeros(64, "i4")
given, made = buffer(numbers), buffer(results)
program = cl.Program(context, SUM).build()
program.rows(queue, (64,), (16,), given, made, np.uint32(4096))
plain = content(made, results)
found = traced(lambda: program.rows(queue, (64,), (16,), given, made, np.uint32(4096)))
answer(**found, same=bool((content(made, results) == plain).all()))
"""
    )
    assert found["same"]
    assert found["rows"] == [["rows", 1, 64]]
    assert found["reasons"] == {}
