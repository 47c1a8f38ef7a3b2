"""PyOpenCL: which kernels are traced, whatever their programs were built from, and what is left as it was."""

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
    assert found["rows"] == [["add", 1, 64]] or "was released before the cell" in found["reasons"]["add"]


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
from accel_magic.gpu.adapters import opencl_c
program = cl.Program(context, opencl_c.compiled(SOURCE, (), (1, 2))).build()
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


def test_what_does_not_compile_for_spirv_runs_as_it_is(run):
    found = run(
        SETUP
        + """
program = cl.Program(context, SOURCE).build()
import accel_magic.gpu.adapters.opencl_c as opencl_c
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
    assert found["fix"].startswith("pass") or "pip install intel-opencl-rt" in found["fix"]
