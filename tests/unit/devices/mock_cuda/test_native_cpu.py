"""Native binaries started by a traced cell with `--device cpu`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import accel_magic
from accel_magic.devices.mock_cuda import library_build

pytestmark = pytest.mark.component

HERE = Path(__file__).parent
PTX = str(HERE / "kernels.ptx")


@pytest.fixture(scope="session")
def binary(tmp_path_factory):
    path = tmp_path_factory.mktemp("native") / "native"
    subprocess.run(["cc", "-o", path, HERE / "native.c", library_build.library()], check=True)
    return str(path)


def test_its_kernels_are_instrumented(binary):
    with accel_magic.gputrace("kernelcount", "memtrace", device="cpu") as t:
        runs = [subprocess.run([binary, PTX], capture_output=True, text=True, check=False) for _ in range(2)]
    assert [(run.returncode, run.stdout, run.stderr) for run in runs] == [(0, "doubled\n", "")] * 2
    result = t.result
    counted = result.tools["kernelcount"].query("launches > 0")
    assert counted[["name", "launches", "warps", "threads"]].to_numpy().tolist() == [["twice", 1, 32, 1024]] * 2
    # 1000 of 1024 threads pass the check: 31 whole warps and 8 lanes of one more.
    accesses = result.tools["memtrace"].query("name == 'twice'")
    assert (
        accesses[["operation", "requests", "lanes"]].to_numpy().tolist()
        == [
            ["load", 32, 1000],
            ["store", 32, 1000],
        ]
        * 2
    )
    assert result.launches["framework"].tolist() == ["native binary"] * 2
    assert result.launches[["grid_x", "block_x"]].to_numpy().tolist() == [[8, 128]] * 2
    assert set(result.kernels.query("launches > 0")["name"]) == {"twice"}
    assert result.kernels.query("launches > 0")["instrumented"].all()


def test_its_programs_read_the_variables_and_maps_that_were_set(binary, tmp_path):
    (tmp_path / "set.bpf.c").write_text(
        """#include "accel_gpu.h"
        const volatile u64 added = 1;
        GPU_MAP(table, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, 4);
        SEC("gpu/exit") int leave(struct gpu_ctx *ctx)
        {
            u32 key = gpu_thread_number() & 3;
            u64 *value = bpf_map_lookup_elem(&table, &key);
            if (value) __sync_fetch_and_add(value, added);
            return 0;
        }
        char LICENSE[] SEC("license") = "GPL";"""
    )
    given = {"settings": {"added": 3, "table.1": 7}, "fill": {"table": [10**6, 2, 3]}}
    with accel_magic.gputrace(str(tmp_path / "set.bpf.c"), device="cpu", **given) as t:
        subprocess.run([binary, PTX], check=True, capture_output=True)
    # Each entry is added to by 256 of the 1,024 threads.
    assert t.result.maps["table"]["value"].tolist() == [10**6 + 768, 7 + 768, 3 + 768, 768]


def test_a_child_that_ends_abruptly_does_not_affect_the_trace(binary):
    with accel_magic.gputrace("kernelcount", device="cpu") as t:
        first = subprocess.run([binary, PTX, "abort"], capture_output=True, text=True, check=False)
        second = subprocess.run([binary, PTX], capture_output=True, text=True, check=False)
    assert first.returncode < 0
    assert second.stdout == "doubled\n"
    assert t.result.tools["kernelcount"]["launches"].sum() == 2


def test_the_cells_own_changes_to_the_environment_are_kept(monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")
    monkeypatch.delenv("ACCEL_MAGIC_MOCK_CUDA", raising=False)
    with accel_magic.gputrace("kernelcount", device="cpu"):
        assert "ACCEL_MAGIC_MOCK_CUDA" in os.environ
        os.environ["LD_LIBRARY_PATH"] = "/of/the/cell"
    assert os.environ["LD_LIBRARY_PATH"] == "/of/the/cell"
    assert "ACCEL_MAGIC_MOCK_CUDA" not in os.environ


def test_the_environment_and_threads_are_restored_even_after_an_error(binary, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")
    monkeypatch.delenv("ACCEL_MAGIC_MOCK_CUDA", raising=False)
    before, threads = dict(os.environ), set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), accel_magic.gputrace("kernelcount", device="cpu"):
        assert os.environ["LD_LIBRARY_PATH"] == f"{library_build.library().parent}:/somewhere"
        subprocess.run([binary, PTX], capture_output=True, check=True)
        raise ZeroDivisionError
    assert dict(os.environ) == before
    assert set(threading.enumerate()) <= threads


def test_calls_of_a_child_that_outlives_the_cell_fail(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    script = "from cuda_client import *; begin(); print('there', flush=True); input(); print(sync())"
    with accel_magic.gputrace("kernelcount", device="cpu"):
        child = subprocess.Popen(
            [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "there\n"
    assert child.communicate("\n", timeout=60)[0] == "4\n"


def test_without_a_c_compiler_the_cell_runs_and_reports_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCEL_MAGIC_CACHE", str(tmp_path))
    monkeypatch.delenv("ACCEL_MAGIC_MOCK_CUDA", raising=False)  # other tests load the driver in this process
    monkeypatch.setenv("PATH", str(tmp_path))
    with accel_magic.gputrace("kernelcount", device="cpu") as t:
        assert "ACCEL_MAGIC_MOCK_CUDA" not in os.environ
    (note,) = t.result.kernels.query("name == 'native binaries'")["reason"]
    assert "apt install gcc" in note
