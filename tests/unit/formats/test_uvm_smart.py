"""Output of UVM Smart. The texts follow what its source prints; its files are not ours to commit."""

import os
from pathlib import Path

import pytest

import accel_magic
from accel_magic.errors import RecordingError
from accel_magic.policies.page_trace import PageTrace
from tests.support.errors import raises

MANAGED = 0xC0000
LOG = """

        *** GPGPU-Sim Simulator Version 3.2.2  [build 0] ***

GPGPU-Sim PTX: pushing kernel '_Z3addPf' to stream 0, gridDim= (1,8,1) blockDim = (16,16,1)
GPGPU-Sim PTX: pushing kernel '_Z3mulPf' to stream 0, gridDim= (1,8,1) blockDim = (16,16,1)
GPGPU-Sim PTX: pushing kernel '_Z3addPf' to stream 0, gridDim= (1,8,1) blockDim = (16,16,1)
F:      100----T:      500 \t \t \t Kl: 1 \t Sm: 0 \t T: kernel_launch(940.674561)
F:      120----T:      130 \t St: c0000000 Sz: 4096 \t Sm: 0 \t T: memcpy_h2d(1.758947)
F:      130----T:      160 \t St: c0001000 Sz: 12288 \t Sm: 0 \t T: memcpy_h2d(5.563808)
F:      200----T:      210 \t St: c0001000 Sz: 4096 \t Sm: 0 \t T: write_back(1.758947)
F:      600----T:      610 \t St: c0400000 Sz: 4096 \t Sm: 0 \t T: memcpy_h2d(1.758947)
F:      700----T:      900 \t \t \t Kl: 2 \t Sm: 0 \t T: kernel_launch(940.674561)
F:      800----T:      810 \t St: c0001000 Sz: 4096 \t Sm: 0 \t T: memcpy_h2d(1.758947)
F:      900----T:      910 \t St: 0 Sz: 4096 \t Sm: 0 \t T: device_sync(1.758947)
"""


@pytest.fixture
def opened(tmp_path):
    def write(content):
        path = tmp_path / "needle.log"
        path.write_text(content)
        return accel_magic.open(path)

    return write


def test_printed_copies_to_the_device_are_a_trace_of_pages_by_launch(opened):
    trace = opened(LOG)

    assert isinstance(trace, PageTrace)
    assert [page - MANAGED for page in trace.page.tolist()] == [0, 1, 2, 3, 0x400, 1]
    assert trace.launch.tolist() == [1, 1, 1, 1, -1, 2]
    assert trace.kernels == ("_Z3addPf", "_Z3mulPf")
    assert trace.kernel.tolist() == [0, 0, 0, 0, -1, 1]
    assert "simulated by UVM Smart; accesses to pages that were there are missing" in trace.source


def test_its_access_file_has_every_access_to_managed_memory(opened):
    trace = opened(
        "786432 0xc0000000 128 150 1 3 7\n786433 0xc0001080 32 160 0 3 7\n524288 0x80000000 128 170 1 0 0\n"
        "786432 0xc0000000 128 650 1 3 7\n786434 0xc0002000 128 701 0 3 7\nK: 100 500\nK: 700 900\n"
    )

    assert [page - MANAGED for page in trace.page.tolist()] == [0, 1, 0, 2]
    assert trace.write.tolist() == [False, True, False, True]
    assert trace.launch.tolist() == [0, 0, -1, 1]
    assert trace.source.endswith("simulated by UVM Smart; accesses to memory that is not managed: 1 left out")


def test_an_access_file_without_launches_has_no_launches(opened):
    assert opened("786432 0xc0000000 128 150 1 3 7\n").launch is None


def test_a_log_without_copies_is_rejected(opened):
    with raises("pages.no-accesses", RecordingError):
        opened("        *** GPGPU-Sim Simulator Version 3.2.2  [build 0] ***\n")


def test_copies_of_memory_that_is_not_managed_are_left_out(opened):
    # cudaMemcpy copies to addresses below those of managed memory; `80000000` is 64 KiB.
    line = "F:   1----T:    2 \t St: {} Sz: {} \t Sm: 0 \t T: memcpy_h2d(1.0)\n"
    text = "GPGPU-Sim\n" + line.format("80000000", 65_536) + line.format("c0001000", 8_192)

    trace = opened(text)

    assert trace.page.tolist() == [0xC0001, 0xC0002]
    assert trace.source.endswith("copies of memory that is not managed: 1 left out")
    with raises("pages.no-accesses", RecordingError, match="contains no page trace"):
        opened("GPGPU-Sim\n" + line.format("80000000", 65_536))


def test_a_log_that_claims_a_huge_copy_is_rejected(opened):
    size = 10**17
    with raises("recording.too-large", RecordingError):
        opened(f"GPGPU-Sim\nF:   1----T:    2 \t St: c0000000 Sz: {size} \t Sm: 0 \t T: memcpy_h2d(1.0)\n")


@pytest.mark.skipif("ACCEL_MAGIC_UVM_SMART" not in os.environ, reason="set ACCEL_MAGIC_UVM_SMART to a checkout")
def test_logs_of_its_repository_open():
    logs = [
        path for path in Path(os.environ["ACCEL_MAGIC_UVM_SMART"]).rglob("*.log") if "memcpy_h2d" in path.read_text()
    ]

    for path in logs:
        trace = accel_magic.open(path)
        assert len(trace) == sum(
            -(-int(line.split("Sz: ")[1].split()[0]) // 4096)
            for line in path.read_text().splitlines()
            if "T: memcpy_h2d(" in line
        )
    assert logs
