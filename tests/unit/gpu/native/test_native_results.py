"""Results of cells that start native programs: complete traces, with the mock CUDA driver."""

import os
import subprocess

import pandas as pd
import pytest

import accel_magic
from accel_magic.analysis.gpu.host import block_spans
from accel_magic.devices import mock_cuda
from accel_magic.devices.sim import SimulatedDevice
from accel_magic.errors import MachineError
from tests.unit.gpu.native.conftest import PTX

pytestmark = pytest.mark.component


@pytest.fixture
def traced(adding):
    """Trace programs started with these numbers of launches; returns the result and their process ids."""
    try:
        with mock_cuda.driver(SimulatedDevice(memory_bytes=256 << 20)) as server:
            driver = mock_cuda.environment(server)

            def run(tools, *launches, end="exit", **options):
                pids = []
                with accel_magic.gputrace(*tools, device="cuda", host_api="off", threads=2048, **options) as trace:
                    for count in launches:
                        command = [adding, "dlsym", PTX, str(count), "1000", end]
                        environment = {**os.environ, **driver}
                        with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as child:
                            assert child.wait(60) == 7
                        pids.append(child.pid)
                return trace.result, pids

            yield run
    except MachineError as error:
        pytest.skip(str(error))


TOOLS = ("kernelcount", "threadhist", "kernelretsnoop", "launchlate")


def test_results_of_one_process_look_like_those_of_the_notebook_itself(traced, adding):
    result, (pid,) = traced(TOOLS, 3)

    assert all("pid" not in frame for frame in (*result.tools.values(), *result.maps.values()))
    counts = result.tools["kernelcount"][["name", "launches", "warps", "threads"]]
    assert counts.to_numpy().tolist() == [["add", 3, 96, 3072]]
    assert set(result.tools["threadhist"]["runs"]) == {3}
    assert result.tools["kernelretsnoop"]["launch"].value_counts().to_dict() == {0: 1024, 1: 1024, 2: 1024}
    assert result.tools["launchlate"]["launch"].tolist() == [0, 1, 2]
    rows = result.kernels[["name", "framework", "instrumented", "launches", "file", "pid"]]
    assert rows.to_numpy().tolist() == [
        ["add", "native binary", True, 3, str(adding), pid],
        ["fill", "native binary", True, 0, str(adding), pid],
    ]
    assert result.launches["pid"].tolist() == [pid] * 3
    assert result.launches["time_ns"].between(0, result.recording.duration_ns).all()
    assert result.lost == 0


def test_rows_of_several_processes_have_a_process_id(traced):
    result, (first, second) = traced(TOOLS, 2, 5)

    counts = result.tools["kernelcount"]
    assert list(counts) == ["pid", "kernel", "name", "launches", "warps", "threads"]
    assert counts.to_numpy().tolist() == [
        [first, 0, "add", 2, 2 * 32, 2 * 1024],
        [second, 2, "add", 5, 5 * 32, 5 * 1024],
    ]
    runs = result.tools["threadhist"].groupby("pid")["runs"].agg(["size", "min", "max"])
    assert runs.to_dict("index") == {
        first: {"size": 1024, "min": 2, "max": 2},
        second: {"size": 1024, "min": 5, "max": 5},
    }
    exits = result.tools["kernelretsnoop"].groupby(["pid", "launch"]).size()
    assert exits.to_dict() == {(first if launch < 2 else second, launch): 1024 for launch in range(7)}
    assert set(result.maps["threads"]["pid"]) == {first, second}
    assert result.launches["pid"].tolist() == [first] * 2 + [second] * 5
    assert len(result.resources) >= 0
    assert "add" in repr(result)
    assert "add" in result._repr_mimebundle_()["text/html"]


def test_launches_of_kernels_without_programs_are_not_mistaken_for_others(traced):
    result, _ = traced(("kernelretsnoop", "blocktime"), 2, 1, end="both", kernel="add")

    assert result.launches["name"].tolist() == ["fill", "add"] * 3
    assert sorted(result.tools["kernelretsnoop"]["launch"].unique()) == [1, 3, 5]
    blocks = block_spans(result.gpu)
    assert blocks.groupby("launch").size().to_dict() == {1: 16, 3: 16, 5: 16}
    starts = blocks.groupby("launch")["start_ns"].min()
    error = result.recording.clock.error_ns
    assert (starts >= result.launches.loc[starts.index, "time_ns"] - error).all()


def test_a_cell_that_starts_no_programs_has_the_notebooks_own_empty_maps(traced):
    result, _ = traced(("kernelcount",))

    assert result.tools["kernelcount"].empty
    assert "pid" not in result.tools["kernelcount"]
    assert {content.pid for content in result.recording.maps} == {os.getpid()}


def test_processes_survive_saving_and_opening(traced, tmp_path):
    result, pids = traced(("kernelcount", "kernelretsnoop"), 1, 2, save=tmp_path / "cell.parquet")

    again = accel_magic.open(tmp_path / "cell.parquet")

    pd.testing.assert_frame_equal(again.kernels, result.kernels)
    pd.testing.assert_frame_equal(again.launches, result.launches)
    for name, table in result.tools.items():
        pd.testing.assert_frame_equal(again.tools[name], table)
    assert [content.pid for content in again.recording.maps] == [content.pid for content in result.recording.maps]
    assert set(pids) < {content.pid for content in again.recording.maps}


def test_the_environment_is_restored_after_an_error_in_the_block(traced, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "")
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError), accel_magic.gputrace("kernelcount", device="cuda", host_api="off"):
        raise ZeroDivisionError

    assert dict(os.environ) == before
