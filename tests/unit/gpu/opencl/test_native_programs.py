"""Native OpenCL programs, and PyOpenCL in a process of its own, through the layer: exact counts on two loaders."""

import subprocess

import pytest

from accel_magic.gpu.codegen import opencl_c
from accel_magic.gpu.native.native_protocol import Left
from tests.support import opencl
from tests.unit.gpu.opencl.conftest import HERE, TRACING

pytestmark = pytest.mark.component

ITEMS = 256
UNCHANGED = """
import sys
import numpy as np
import pyopencl as cl
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
program = cl.Program(context, open(sys.argv[1]).read()).build()
data = np.arange(64, dtype="f4")
a = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=data)
c = cl.Buffer(context, cl.mem_flags.READ_WRITE, data.nbytes)
for _ in range(3):
    program.add(queue, (64,), (16,), a, a, c, np.uint32(64))
found = np.empty_like(data)
cl.enqueue_copy(queue, found, c)
print(bool((found == 2 * data).all()))
"""


@pytest.fixture(scope="session")
def files(tmp_path_factory, native, runtime):
    """The kernels as OpenCL C, SPIR-V and a binary of the runtime."""
    folder = tmp_path_factory.mktemp("files")
    source, il, binary = HERE / "kernels.cl", folder / "kernels.spv", folder / "kernels.bin"
    il.write_bytes(opencl_c.compiled(source.read_text(), (), (1, 2)).code)
    command = [native(HERE / "programs" / "adding.c"), opencl.loader(), source, "source", "-1", binary]
    subprocess.run(
        command, env={**runtime, "LD_LIBRARY_PATH": str(opencl.loader().parent)}, check=True, stdin=subprocess.DEVNULL
    )
    return {"source": source, "again": source, "linked": source, "il": il, "il-khr": il, "binary": binary}


@pytest.fixture(scope="session")
def adding(run, native, files):
    """Trace a program that adds, `launches` times and once more by a clone of its kernel."""

    def traced(how, launches=4, script="answer(**traced(*command)[1])", **options):
        command = [
            str(word) for word in (native(HERE / "programs" / "adding.c"), opencl.loader(), files[how], how, launches)
        ]
        layer = str(native(HERE / "programs" / "masking.c", "-fPIC", "-shared"))
        head = f"command, layer = {command!r}, {layer!r}\n"
        return run(TRACING + head + script)

    return traced


@pytest.mark.parametrize("how", ["source", "il", "il-khr", "again"])
def test_every_launch_of_a_native_program_is_counted(adding, how):
    found = adding(how)

    assert (found["status"], found["said"], found["errors"]) == (0, "0 add 4 1", "")
    assert found["rows"] == [["add", 5, 5 * ITEMS]]
    assert [row[:2] for row in found["launches"]] == 5 * [["add", "OpenCL program"]]
    assert [grid * block for _, _, grid, block in found["launches"]] == 5 * [ITEMS]
    assert [found["launches"][at][3] for at in (0, 2, 4)] == [16, 16, 16]
    assert found["reasons"] == {}
    assert found["lanes"] == [16]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("binary", Left.AS_BINARY.reason),
        ("linked", Left.LINKED.reason),
    ],
)
def test_what_cannot_be_traced_is_reported_and_its_launches_are_listed(adding, how, reason):
    found = adding(how)

    assert (found["status"], found["said"]) == (0, "0 add 4 1")
    assert found["rows"] == []
    assert found["reasons"] == {"add": reason}
    assert len(found["launches"]) == 5


def test_unchanged_pyopencl_in_a_process_of_its_own_is_traced(run):
    found = run(
        TRACING
        + f"answer(**traced(sys.executable, '-W', 'ignore', '-c', {UNCHANGED!r}, {str(HERE / 'kernels.cl')!r})[1])"
    )

    assert (found["status"], found["said"]) == (0, "True"), found["errors"]
    assert found["rows"] == [["add", 3, 3 * 64]]
    assert found["launches"] == 3 * [["add", "OpenCL program", 4, 16]]


def test_all_kernels_at_once_threads_and_a_second_build(run, native):
    command = [
        str(word) for word in (native(HERE / "programs" / "several.c"), opencl.loader(), HERE / "kernels.cl", 2, 20)
    ]
    found = run(TRACING + f"answer(**traced(*{command!r}, tool=COUNT)[1])")

    assert (found["status"], found["said"]) == (0, "0 6 count 1"), found["errors"]
    assert len(found["launches"]) == 60
    # This file's kernels have many places in all.
    assert [note.partition(" at ")[0] for note in found["notes"]] == ["programs are called"]


@pytest.mark.parametrize("mask", ["unified", "buffers", ""])
def test_counts_are_exact_wherever_the_maps_are(adding, mask):
    found = adding(
        "source",
        script=f"""
result, found = traced(*command, tool=COUNT, mask={mask!r}, layer=layer)
kernel = result.kernels.set_index("name").kernel["add"]
access = result.maps["accesses"]
answer(
    **found,
    entries=int(result.maps["entries"].set_index("key").value.sum()),
    bytes=int(access.bytes.sum()),
    numbers=result.launches.device_launch.tolist(),
)
""",
    )
    assert (found["status"], found["said"]) == (0, "0 add 4 1"), found["errors"]
    assert found["entries"] == 5 * ITEMS
    assert found["bytes"] == 5 * ITEMS * 3 * 4
    assert found["numbers"] == [1, 2, 3, 4, 5]
    assert found["reasons"] == {}


@pytest.mark.parametrize("mask", ["unified", ""])
def test_records_have_the_launch_that_made_them(adding, mask):
    found = adding(
        "source",
        launches=5,
        script=f"""
result, found = traced(*command, tool="pagetrace", mask={mask!r}, layer=layer)
table = result.tools["pagetrace"]
answer(**found, launches_of=sorted(set(table.launch)), writes=table.write.groupby(table.launch).sum().tolist())
""",
    )
    assert found["launches_of"] == [0, 1, 2, 3, 4, 5]
    assert len(set(found["writes"])) == 1


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        ("nothing", "its device shares no memory with the host that has atomic operations"),
        ("other", "choose it with --gpu N"),
    ],
)
def test_a_device_that_is_not_traced_is_reported(adding, mask, reason):
    found = adding("source", script=f"answer(**traced(*command, mask={mask!r}, layer=layer)[1])")

    assert (found["status"], found["said"]) == (0, "0 add 4 1"), found["errors"]
    assert found["rows"] == []
    assert reason in found["reasons"]["adding"]


def test_what_the_driver_rejects_runs_as_it_is(adding):
    found = adding("source", script="answer(**traced(*command, mask='reject', layer=layer)[1])")

    assert (found["status"], found["said"]) == (0, "0 add 4 1"), found["errors"]
    assert found["rows"] == []
    assert "the driver rejects it with programs in it: error -42" in found["reasons"]["add"]
    assert len(found["launches"]) == 5


@pytest.mark.parametrize("ending", ["kill", "running"])
@pytest.mark.parametrize("mask", ["", "unified"])
def test_counts_of_a_process_that_is_killed_or_still_runs_are_kept(adding, ending, mask):
    found = adding(
        "source",
        script=f"""
import time
with gputrace("kernelcount", device="opencl") as trace:
    added = {{"MASK": {mask!r}, "OPENCL_LAYERS": layer + ":" + os.environ["OPENCL_LAYERS"]}}
    variables, pipe = {{**os.environ, **environment, **added}}, subprocess.PIPE
    child = subprocess.Popen([*command, "wait"], env=variables, stdin=pipe, stdout=pipe, text=True)
    said = child.stdout.readline().strip()
    if {ending!r} == "kill":
        time.sleep(2)  # maps in a device's memory are copied every 0.2 s
        child.kill()
        child.wait()
result = trace.result
child.communicate("")
rows = result.tools["kernelcount"][["name", "launches", "threads"]].to_numpy().tolist()
answer(rows=rows, said=said, status=child.returncode, notes=list(result.recording.notes))
""",
    )
    assert found["said"] == "0 add 4 1"
    assert found["rows"] == [["add", 5, 5 * ITEMS]]
    assert found["status"] == (-9 if ending == "kill" else 0)
    about = [note for note in found["notes"] if note.startswith("adding")]
    expected = {"kill": "was killed" if mask else None, "running": "was still running"}[ending]
    assert len(about) == (expected is not None)
    assert not about or expected in about[0]
