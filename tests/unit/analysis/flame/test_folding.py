"""Frames below the traced code are left out: the notebook's and the tracer's."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import accel_magic
from accel_magic.analysis.flame.folding import TRACER, folded
from accel_magic.api import block
from accel_magic.api.block import Block
from accel_magic.itt import marking
from accel_magic.kernel.stacks import python_names
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.magics import cell_runner, traced
from accel_magic.recording import live_samples
from tests.support.paths import ROOT

RECORDINGS = ROOT / "notebooks" / "recordings"
SITE = "/usr/lib/python3/site-packages"


def of(package, *files):
    """Paths of a package's files, as if it were installed in SITE."""
    folder = Path(find_spec(package).submodule_search_locations[0])
    assert all((folder / file).is_file() for file in files), files
    return [f"{SITE}/{package}/{file}" for file in files]


def installed(module):
    return f"{SITE}/{Path(module.__file__).relative_to(Path(accel_magic.__file__).parents[1])}"


KERNEL = of("ipykernel", "kernelapp.py")
NOTEBOOK = [*KERNEL, "/usr/lib/python3.11/asyncio/base_events.py", *of("IPython", "core/interactiveshell.py")]
MAGIC = [installed(traced), installed(cell_runner)]
DASK = of("distributed", "threadpoolexecutor.py", "_concurrent_futures_thread.py", "worker.py")
DASK = [*DASK, *of("dask", "_task_spec.py")]
ENGINE = [*of("ipyparallel", "engine/app.py"), *of("tornado", "ioloop.py"), *of("ipyparallel", "engine/kernel.py")]
THREAD = ["/usr/lib/python3.11/threading.py"] * 3


def stack(*modules):
    return tuple(Frame(f"f{at}", FrameKind.PYTHON, module, at + 1) for at, module in enumerate(modules))


@pytest.mark.parametrize(
    ("below", "own"),
    [
        pytest.param([*NOTEBOOK, "cell [4]", *MAGIC], ["cell [4]", "/home/u/model.py"], id="the magic's cell"),
        pytest.param(NOTEBOOK, ["/tmp/ipykernel_77/1234.py", "/home/u/model.py"], id="a with block in a cell"),
        pytest.param(NOTEBOOK, ["<ipython-input-3-abc>", f"{SITE}/numpy/x.py"], id="a cell of the terminal"),
        pytest.param(THREAD, ["cell [4]"], id="a thread of the cell"),
        pytest.param([*THREAD, *DASK], ["/home/u/model.py", *of("distributed", "worker.py")], id="a task of Dask"),
        pytest.param([*ENGINE], ["/home/u/model.py", f"{SITE}/tornado/x.py"], id="a task of ipyparallel"),
        pytest.param([], [*THREAD, *DASK[:1], *THREAD], id="a thread of Dask that waits for a task"),
        pytest.param([], [*THREAD, *DASK], id="a worker's own work"),
        pytest.param([], [*THREAD, *DASK[2:], *of("distributed", "core.py")], id="a worker's own work on its loop"),
        pytest.param([], ["/home/u/script.py", f"{SITE}/IPython/lib/x.py"], id="a script"),
        pytest.param([], [*THREAD, "/home/u/pool.py"], id="a thread of a library"),
        pytest.param([], [], id="no Python at all"),
    ],
)
def test_the_first_frame_shown_is_the_cells_own(below, own):
    frames = (*stack(*below, *own), Frame("gemm", FrameKind.NATIVE, "libblas.so"))

    assert folded(frames) == frames[len(below) :]


def test_what_an_engine_executes_to_call_a_function_is_left_out():
    called = stack("/home/u/model.py")
    assert folded((*stack(*ENGINE), Frame("<module>", FrameKind.PYTHON, "<string>", 1), *called)) == called


def test_wrappers_of_a_librarys_functions_are_left_out_also_as_what_a_thread_runs():
    threads, library = stack(*THREAD), stack(f"{SITE}/openvino/_ov_api.py")
    assert folded((*threads, *stack(installed(marking)), *library)) == (*threads, *library)


@pytest.mark.parametrize("modules", [NOTEBOOK, [*THREAD, *of("ipykernel", "iostream.py")], [f"{SITE}/zmq/x.py"]])
def test_the_notebooks_own_threads_are_left_out(modules):
    assert folded(stack(*modules)) is None


@pytest.mark.parametrize(
    "modules",
    [
        [*NOTEBOOK, "cell [4]", *MAGIC],
        [*NOTEBOOK, *MAGIC, installed(python_names)],
        [*THREAD, installed(live_samples), f"{SITE}/IPython/x.py"],
    ],
)
def test_the_tracers_own_work_is_shown_under_its_name(modules):
    assert folded(stack(*modules)) == (TRACER,)


class Traced(Block):
    """A trace of nothing, whose steps run nothing else."""

    KIND = "flame"

    def prepare(self):
        pass

    def _warm_up(self):
        pass

    def _attach(self, show):
        return self

    def go(self):
        pass

    def _finish(self, attached, outcome, value):
        return outcome

    def again(self):
        return Traced()


def frames_during(text, module, **names):
    """The stack at every call of Python code while `text` runs as the code of `module`, outermost frame first."""
    stacks, code = [], compile(text, module, "exec")

    def look(frame, event, _):
        stack = []
        while event == "call" and frame is not None:
            stack.insert(0, Frame(frame.f_code.co_qualname, FrameKind.PYTHON, frame.f_code.co_filename, frame.f_lineno))
            if frame.f_code is code:
                stacks.append(tuple(stack))
                return
            frame = frame.f_back

    sys.setprofile(look)
    try:
        exec(code, names)
    finally:
        sys.setprofile(None)
    return stacks


def users_own():
    """The traced code of a user calls this."""


def run_below_a_magic(trace):
    """Run a cell as a magic does, between `attach` and the end."""
    body = compile("users_own()", "cell [5]", "exec")
    trace.attach()
    traced.run_cell(cell_runner.CompiledCell(body, None), {"users_own": users_own}, [trace])


@pytest.mark.parametrize(
    ("text", "module", "shown"),
    [
        pytest.param("with block: users_own()", "/home/u/script.py", 2, id="a block in a script"),
        pytest.param("with block: users_own()", "cell [4]", 2, id="a block in a cell"),
        pytest.param("block(users_own)()", "/home/u/script.py", 3, id="a decorated function"),
        pytest.param("below_a_magic(block)", "cell [4]", 2, id="a cell of the magic"),
    ],
)
def test_only_starting_and_ending_a_trace_is_the_tracers_own_work(monkeypatch, text, module, shown):
    monkeypatch.setattr(block, "_last", None)
    names = {"block": Traced(), "users_own": users_own, "below_a_magic": run_below_a_magic}
    stacks = frames_during(text, module, **names)
    tracers = {step.__qualname__ for step in (Block.__enter__, Block._leave, Block.attach, Block.end)}
    around = [stack for stack in stacks if {frame.name for frame in stack} & tracers]
    (own,) = (stack for stack in stacks if stack[-1].name == users_own.__qualname__)

    assert len(around) > 20
    assert {folded(stack) for stack in around} == {(TRACER,)}
    assert folded(own) == own[-shown:]


CUT = Frame("[callers beyond 127 frames]", FrameKind.PYTHON)


def test_a_stack_without_its_outermost_callers_says_so_in_a_cell_too():
    deep = (CUT, *stack("/home/u/model.py", "cell [4]", "cell [4]", "/home/u/model.py"))
    within_the_notebook = (CUT, *stack(f"{SITE}/ipykernel/kernelapp.py", "cell [4]", "/home/u/model.py"))

    assert folded(deep) == deep
    assert folded(within_the_notebook) == within_the_notebook[2:]


@pytest.mark.parametrize("file", sorted(RECORDINGS.glob("flame-*.parquet")), ids=lambda file: file.stem)
def test_the_notebooks_recordings_contain_no_folders_and_no_frames_of_the_notebook_itself(file):
    result = accel_magic.open(file)
    frames = {frame for stack in result.stacks["frames"] for frame in stack}

    assert any(frame.kind == FrameKind.PYTHON and frame.module.startswith("cell [") for frame in frames)
    assert not [frame for frame in frames if frame.module.startswith("/")]
    assert not {frame.name for frame in frames} & {"InteractiveShell.run_cell_magic", "TracedCells.trace_cell"}
