"""Maps while kernels run through a CUDA driver: the mock CUDA driver, in a separate process."""

import json
import subprocess
import sys

import pytest

from accel_magic.devices.mock_cuda import library_build
from accel_magic.errors import MachineError
from tests.unit.gpu import test_live_history
from tests.unit.gpu.maps import test_live_maps

pytest.importorskip("cuda.core")

SCRIPT = r"""
import json, sys
import numpy as np
import accel_magic
from accel_magic.devices import mock_cuda

kernels, records, counts = sys.argv[1:]
found = {}
with mock_cuda.driver():
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    out = device.allocate(4096, stream=stream)

    def compiled():
        options = ProgramOptions(arch="sm_80")
        return Program(kernels, code_type="c++", options=options).compile("ptx").get_kernel("loop")

    def loop(kernel, rounds):
        launch(stream, LaunchConfig(grid=1, block=64), kernel, int(out.handle), np.int32(rounds))

    with accel_magic.gputrace(records, device="cuda", threads=64) as trace:
        kernel = compiled()
        loop(kernel, 800)  # returns at once
        seen, written = [], 0
        while written < 64 * 800:
            now = trace.maps_now()
            written = int(now[".bss"]["written"].iloc[0])
            seen.append(len(now["events"]))
    result = trace.result
    found["written"] = int(result.maps[".bss"]["written"].iloc[0])
    found["kept"] = {one.spec.name: [len(result.maps[one.spec.name]), one.lost] for one in result.recording.maps[:2]}
    events = result.maps["events"]
    found["whole"] = bool((events["number"] ^ events["check"] == 2**64 - 1).all())
    found["seen"] = [seen == sorted(seen), len({count for count in seen if 0 < count < seen[-1]})]

    with accel_magic.gputrace(counts, device="cuda", threads=64, by_launch=True) as trace:
        kernel = compiled()
        for rounds in (3, 1, 2):
            loop(kernel, rounds)
    found["history"] = trace.result.history[".data"][["launch", "stores"]].to_numpy().tolist()
    out.close()
    stream.sync()
print(json.dumps(found))
"""


@pytest.fixture(scope="module", autouse=True)
def _library():
    try:
        library_build.library()
    except MachineError as error:
        pytest.skip(str(error))


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
def test_rings_are_drained_and_maps_read_live_and_by_launch_with_a_driver(tmp_path):
    for name, text in (("records", test_live_maps.RECORDS), ("counts", test_live_history.COUNTS)):
        (tmp_path / f"{name}.bpf.c").write_text(text)
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        test_live_maps.KERNELS,
        tmp_path / "records.bpf.c",
        tmp_path / "counts.bpf.c",
    ]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["written"] == 64 * 800
    for kept, lost in found["kept"].values():
        assert kept + lost == 64 * 800
    # More than the capacity of the rings, see test_live_maps.
    assert found["kept"]["events"][0] > 2 * 102
    assert found["kept"]["own"][0] > 2 * 192
    assert found["whole"]
    in_order, moments = found["seen"]
    assert in_order
    assert moments >= 3
    assert found["history"] == [[0, 64 * 3], [1, 64], [2, 64 * 2]]
