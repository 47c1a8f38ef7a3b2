"""Native Level Zero programs: exact counts, whatever their command lists do, and what cannot be traced."""

import subprocess
from pathlib import Path

import pytest

from accel_magic.gpu.codegen import opencl_c
from accel_magic.gpu.native import native_protocol
from tests.support import opencl
from tests.unit.gpu.opencl.conftest import HERE, TRACING

pytestmark = pytest.mark.component

PROGRAMS = Path(__file__).with_name("programs")
ITEMS = 256
KILLING = """
import time
os.environ.update(variables)
with gputrace("kernelcount", device="opencl") as trace:
    pipe = subprocess.PIPE
    child = subprocess.Popen([*command, "wait"], env={**os.environ, **environment}, stdin=pipe, stdout=pipe, text=True)
    said = child.stdout.readline().strip()
    time.sleep(2)  # maps are copied every 0.2 s
    child.kill()
    child.wait()
answer(said=said, rows=trace.result.tools["kernelcount"][["name", "threads"]].to_numpy().tolist())
"""


@pytest.fixture(scope="session")
def adding(run, native, tmp_path_factory):
    """Trace a program that adds: `how` its kernels are launched, `launches` in a list."""
    module = tmp_path_factory.mktemp("level_zero") / "kernels.spv"
    module.write_bytes(opencl_c.compiled((HERE / "kernels.cl").read_text(), (), (1, 2)).code)

    def traced(how, launches=3, script="answer(**traced(*command)[1])", **variables):
        loader = native(
            PROGRAMS / "loader.c", "-fPIC", "-shared", "-Wl,-soname,libze_loader.so.1", name="libze_loader.so.1"
        )
        command = [
            str(word) for word in (native(PROGRAMS / "adding.c", name="ze_adding"), loader, module, how, launches)
        ]
        variables["OPENCL_LIBRARY"] = str(opencl.loader())
        head = f"command, variables = {command!r}, {variables!r}\nos.environ.update(variables)\n"
        # The mock's own OpenCL calls are not the program's.
        return run(TRACING + head + "environment['OPENCL_LAYERS'] = ''\n" + script)

    return traced


@pytest.mark.parametrize(("how", "times"), [("immediate", 1), ("executed", 2)])
@pytest.mark.parametrize("memory", ["device", "host"])
def test_every_launch_is_counted(adding, how, times, memory):
    found = adding(
        how,
        script="""
result, found = traced(*command, tool=COUNT)
answer(
    **found,
    entries=int(result.maps["entries"].value.sum()),
    moved=int(result.maps["accesses"].bytes.sum()),
    numbers=result.launches.device_launch.fillna(0).tolist(),
)
""",
        **({"MOCK_INTEGRATED": "1"} if memory == "host" else {}),
    )
    assert (found["status"], found["said"]) == (0, "0"), found["errors"]
    assert found["entries"] == 3 * times * ITEMS
    assert found["moved"] == 3 * times * ITEMS * 3 * 4
    assert found["launches"] == 3 * times * [["add", "Level Zero program", 16, 16]]
    assert found["numbers"] == [1, 2, 3] + (times - 1) * [0, 0, 0]
    assert found["lanes"] == [16]
    assert found["reasons"] == {}


def test_records_have_the_launch_that_made_them_also_within_a_list(adding):
    found = adding(
        "executed",
        script="""
result, found = traced(*command, tool="pagetrace")
answer(**found, pages=result.tools["pagetrace"].groupby("launch").size().tolist())
""",
    )
    assert len(found["pages"]) == 3
    assert len(set(found["pages"])) == 1


def test_machine_code_is_the_programs_own(adding):
    """What a program keeps in a file must not have the trace's programs in it, which need memory of this process."""
    found = adding("native")

    assert (found["status"], found["said"]) == (0, "0"), found["errors"]
    assert found["rows"] == []
    assert found["reasons"] == {"add": native_protocol.Left.AS_BINARY.reason}
    assert len(found["launches"]) == 6


def test_what_the_driver_rejects_runs_as_it_is(adding):
    found = adding("immediate", MOCK_REJECTS="1")

    assert (found["status"], found["said"]) == (0, "0"), found["errors"]
    assert found["rows"] == []
    assert "error: the mock rejects it" in found["reasons"]["add"]


def test_another_device_is_reported(adding):
    found = adding("immediate", MOCK_NAME="Another GPU")

    assert (found["status"], found["said"]) == (0, "0"), found["errors"]
    assert found["rows"] == []
    assert found["reasons"] == {"ze_adding": "its programs are for Another GPU: choose it with --gpu N"}


def test_counts_of_a_process_that_is_killed_are_kept(adding):
    found = adding("immediate", script=KILLING)

    assert found == {"said": "0", "rows": [["add", 3 * ITEMS]]}


def test_structures_have_the_layout_of_the_specification(tmp_path, native):
    places = {
        "ze_module": (56, {"format": 16, "size": 24, "data": 32, "options": 40, "constants": 48}),
        "ze_kernel": (32, {"name": 24}),
        "ze_queue": (40, {"mode": 28}),
        "ze_host_memory": (24, {"flags": 16}),
        "ze_device_memory": (24, {"ordinal": 20}),
        "ze_device": (368, {"flags": 28, "name": 112}),
        "ze_kernel_properties": (96, {"most_lanes": 40}),
    }
    header = Path(native_protocol.__file__).with_name("level_zero") / "level_zero.h"
    lines = [
        line
        for name, (size, members) in places.items()
        for line in (
            f"_Static_assert(sizeof(struct {name}) == {size});",
            *(f"_Static_assert(offsetof(struct {name}, {member}) == {at});" for member, at in members.items()),
        )
    ]
    source = tmp_path / "layout.c"
    source.write_text(f'#include "{header}"\n' + "\n".join([*lines, "int main(void) { return 0; }"]))

    subprocess.run([native(source)], check=True)
