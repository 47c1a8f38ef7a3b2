"""One array counted by a uprobe and by kernels of several native programs, on the mock CUDA driver."""

import os
import subprocess

import pytest

import accel_magic
from accel_magic.devices import mock_cuda
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.errors import MachineError
from accel_magic.gpu.program import clang
from tests.unit.gpu.native.conftest import PTX, compiled

pytestmark = pytest.mark.live

PROGRAM = """
#include "accel_gpu.h"
#include <bpf/bpf_helpers.h>

GPU_MAP(am_counts, BPF_MAP_TYPE_SHARED_ARRAY, u32, u64, 2);

static __always_inline void count(u32 key)
{
	u64 *value = bpf_map_lookup_elem(&am_counts, &key);

	if (value)
		__sync_fetch_and_add(value, 1);
}

SEC("uprobe")
int am_on_add(void *ctx) { count(0); return 0; }

SEC("gpu.warp/entry")
int am_warp(struct gpu_ctx *ctx) { count(1); return 0; }

char LICENSE[] SEC("license") = "GPL";
"""


def test_one_array_has_the_counts_of_the_kernel_and_of_every_process(tmp_path):
    program = compiled(tmp_path, "adding")
    source = tmp_path / "am_native.bpf.c"
    source.write_text(PROGRAM)
    launches = (3, 4)
    try:
        clang.find_clang()
        with mock_cuda.driver(SimulatedDevice(memory_bytes=256 << 20)) as server:
            environment = mock_cuda.environment(server)
            where = f"am_on_add=uprobe:{program}:add"
            with accel_magic.gputrace(str(source), where, device="cuda", host_api="off", threads=2048) as t:
                for count in launches:
                    command = [program, "dlsym", PTX, str(count), "1000"]
                    done = subprocess.run(
                        command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, timeout=60, check=False
                    )
                    assert done.returncode == 7
    except MachineError as error:
        pytest.skip(str(error))

    # The function `add` of the program is called once in each; blocks of 64 threads are two warps.
    counts = t.result.maps["am_counts"]
    assert counts.to_numpy().tolist() == [[0, len(launches)], [1, sum(launches) * 16 * 2]]
