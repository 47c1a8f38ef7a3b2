"""Frames below the traced code are left out: the notebook's and the tracer's."""

import pytest

import accel_magic
from accel_magic.analysis.flame.folding import TRACER, folded
from accel_magic.kernel.stacks.frames import Frame, Kind
from tests.support.paths import ROOT

RECORDINGS = ROOT / "notebooks" / "recordings"
SITE = "/usr/lib/python3/site-packages"
NOTEBOOK = [f"{SITE}/ipykernel/kernelapp.py", "/usr/lib/python3.11/asyncio/base_events.py", f"{SITE}/IPython/core/x.py"]
MAGIC = [f"{SITE}/accel_magic/magics/traced.py", f"{SITE}/accel_magic/magics/cell.py"]
DASK = [f"{SITE}/distributed/{name}.py" for name in ("threadpoolexecutor", "_concurrent_futures_thread", "worker")]
DASK = [*DASK, f"{SITE}/dask/_task_spec.py"]
ENGINE = [f"{SITE}/ipyparallel/engine/app.py", f"{SITE}/tornado/x.py", f"{SITE}/ipyparallel/engine/kernel.py"]
THREAD = ["/usr/lib/python3.11/threading.py"] * 3


def stack(*modules):
    return tuple(Frame(f"f{at}", Kind.PYTHON, module, at + 1) for at, module in enumerate(modules))


@pytest.mark.parametrize(
    ("below", "own"),
    [
        pytest.param([*NOTEBOOK, "cell [4]", *MAGIC], ["cell [4]", "/home/u/model.py"], id="the magic's cell"),
        pytest.param(NOTEBOOK, ["/tmp/ipykernel_77/1234.py", "/home/u/model.py"], id="a with block in a cell"),
        pytest.param(NOTEBOOK, ["<ipython-input-3-abc>", f"{SITE}/numpy/x.py"], id="a cell of the terminal"),
        pytest.param(THREAD, ["cell [4]"], id="a thread of the cell"),
        pytest.param([*THREAD, *DASK], ["/home/u/model.py", f"{SITE}/distributed/worker.py"], id="a task of Dask"),
        pytest.param([*ENGINE], ["/home/u/model.py", f"{SITE}/tornado/x.py"], id="a task of ipyparallel"),
        pytest.param([], [*THREAD, *DASK[:1], *THREAD], id="a thread of Dask that waits for a task"),
        pytest.param([], [*THREAD, *DASK], id="a worker's own work"),
        pytest.param([], [*THREAD, *DASK[2:], f"{SITE}/distributed/core.py"], id="a worker's own work on its loop"),
        pytest.param([], ["/home/u/script.py", f"{SITE}/IPython/lib/x.py"], id="a script"),
        pytest.param([], [*THREAD, "/home/u/pool.py"], id="a thread of a library"),
        pytest.param([], [], id="no Python at all"),
    ],
)
def test_the_first_frame_shown_is_the_cells_own(below, own):
    frames = (*stack(*below, *own), Frame("gemm", Kind.NATIVE, "libblas.so"))

    assert folded(frames) == frames[len(below) :]


def test_what_an_engine_executes_to_call_a_function_is_left_out():
    called = stack("/home/u/model.py")
    assert folded((*stack(*ENGINE), Frame("<module>", Kind.PYTHON, "<string>", 1), *called)) == called


@pytest.mark.parametrize("modules", [NOTEBOOK, [*THREAD, f"{SITE}/ipykernel/iostream.py"], [f"{SITE}/zmq/x.py"]])
def test_the_notebooks_own_threads_are_left_out(modules):
    assert folded(stack(*modules)) is None


@pytest.mark.parametrize(
    "modules",
    [
        [*NOTEBOOK, "cell [4]", *MAGIC],
        [*NOTEBOOK, *MAGIC, f"{SITE}/accel_magic/kernel/stacks/python_names.py"],
        [*THREAD, f"{SITE}/accel_magic/recording/live.py", f"{SITE}/IPython/x.py"],
    ],
)
def test_the_tracers_own_work_is_shown_under_its_name(modules):
    assert folded(stack(*modules)) == (TRACER,)


def test_starting_and_stopping_the_trace_is_the_tracers_own_work_and_a_decorated_call_is_not():
    around = (*stack("cell [4]"), Frame("FlameTrace.stop", Kind.PYTHON, f"{SITE}/accel_magic/api/flame.py", 9))
    called = Frame("FlameTrace.__call__.<locals>.profiled", Kind.PYTHON, f"{SITE}/accel_magic/api/flame.py", 9)
    decorated = (*stack("/home/u/script.py"), called, *stack("/home/u/model.py"))

    assert folded((*around, *stack("/usr/lib/python3.11/threading.py"))) == (TRACER,)
    assert folded(decorated) == decorated


@pytest.mark.parametrize("file", sorted(RECORDINGS.glob("flame-*.parquet")), ids=lambda file: file.stem)
def test_the_notebooks_recordings_contain_no_folders_and_no_frames_of_the_notebook_itself(file):
    result = accel_magic.open(file)
    frames = {frame for stack in result.stacks["frames"] for frame in stack}

    assert any(frame.kind == Kind.PYTHON and frame.module.startswith("cell [") for frame in frames)
    assert not [frame for frame in frames if frame.module.startswith("/")]
    assert not {frame.name for frame in frames} & {"InteractiveShell.run_cell_magic", "TracedCells.trace_cell"}
