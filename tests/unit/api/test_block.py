"""Common behavior of all kinds of traces: block, decorator, result; and that nothing stays attached."""

import contextlib
import gc
import itertools
import os
import signal

import pytest

import accel_magic
from accel_magic import interrupts
from accel_magic.api import block
from accel_magic.engine import trace_kinds
from accel_magic.errors import MachineError, RecordingError, TraceStateError
from tests.every_step import interrupt_at

MODULES = (block, interrupts, contextlib, trace_kinds)


class Found(str):
    """A result: how the traced code ended."""

    __slots__ = ("trace",)

    def __new__(cls, text, trace):
        made = super().__new__(cls, text)
        made.trace = trace
        return made

    def to_parquet(self, path):
        self.trace.step(f"write {path}")


class Traced(block.Block):
    """A trace of nothing that records its steps; `fails` maps steps to the errors they raise."""

    KIND = "ktrace"
    done: list

    def __init__(self, save=None, fails=()):
        super().__init__(save)
        self.fails = dict(fails)
        self.parts = set()

    def step(self, name):
        self.done.append(name)
        if name in self.fails:
            raise self.fails[name]

    def _warm_up(self):
        self.step("warm up")

    def prepare(self):
        self.step("prepare")

    def check(self):
        self.step("check")

    def _attach(self, show):
        self.step("attach")
        for part in ("probes", "maps", "reader"):
            self._undo.callback(self.step, f"close {part}")
            self._undo.callback(self.parts.discard, part)
            self.parts.add(part)
        self.step("attached")
        return self.parts

    def go(self):
        self.step("go")

    def halt(self):
        self.step("halt")

    def _finish(self, attached, outcome, value):
        assert attached == {"probes", "maps", "reader"}, "the result is read while it is attached"
        self.step(f"finish: {outcome}")
        return Found(f"result {outcome}", self)

    def again(self):
        return Traced(self._save, self.fails)


CLOSED = ["close reader", "close maps", "close probes"]
BEGUN = ["warm up", "prepare", "check", "attach", "attached", "go"]


@pytest.fixture(autouse=True)
def done(monkeypatch):
    monkeypatch.setattr(block, "_last", None)
    monkeypatch.setattr(Traced, "done", [], raising=False)
    yield Traced.done
    trace_kinds.claim("ktrace")  # nobody has it
    trace_kinds.release("ktrace")


def test_a_block_is_prepared_attached_run_and_stopped(done):
    with Traced() as trace:
        done.append("block")

    assert done == [*BEGUN, "block", "halt", "finish: ok", *CLOSED]
    assert trace.result == accel_magic.last == "result ok"


@pytest.mark.parametrize(("error", "outcome"), [(ValueError, "error"), (KeyboardInterrupt, "interrupted")])
def test_a_block_that_raises_has_a_result_and_its_error_propagates(done, error, outcome):
    with pytest.raises(error), Traced("file") as trace:
        raise error

    assert done[len(BEGUN) :] == ["halt", f"finish: {outcome}", *CLOSED, "write file"]
    assert trace.result == f"result {outcome}"


@pytest.mark.parametrize("step", ["warm up", "prepare", "check", "attach", "attached", "go"])
def test_a_failure_at_the_start_of_the_block_leaves_nothing_attached(done, step):
    trace = Traced(fails={step: RuntimeError(step)})
    with pytest.raises(RuntimeError, match=step), trace:
        done.append("block")

    assert done[: BEGUN.index(step) + 1] == BEGUN[: BEGUN.index(step) + 1]
    assert done[BEGUN.index(step) + 1 :] == (CLOSED if step in ("attached", "go") else [])
    assert trace.parts == set()


@pytest.mark.parametrize("broken", CLOSED)
@pytest.mark.parametrize("error", [OSError("broken"), KeyboardInterrupt()])
def test_a_failing_cleanup_step_does_not_stop_the_others(done, broken, error):
    trace = Traced(fails={broken: error})
    with pytest.raises(type(error)), trace:
        pass

    assert done[-3:] == CLOSED
    assert trace.parts == set()
    assert trace.result == "result ok"
    with pytest.raises(type(error)):
        started = Traced(fails={broken: error, "go": RuntimeError("go")})
        started.__enter__()
    assert started.parts == set()


def test_running_out_of_file_descriptors_is_reported(done):
    for step in ("prepare", "attach"):
        with pytest.raises(MachineError) as caught, Traced(fails={step: OSError(24, "Too many open files")}):
            done.append("block")
        assert caught.value.code == "machine.too-many-files"
        assert "ulimit -n" in caught.value.fix


def test_a_deferred_interrupt_is_raised_after_the_result_is_kept_and_written(done):
    class Slow(Traced):
        def _finish(self, attached, outcome, value):
            signal.raise_signal(signal.SIGINT)
            return super()._finish(attached, outcome, value)

    with pytest.raises(KeyboardInterrupt), Slow("file") as trace:
        pass

    assert done[-5:] == ["finish: ok", *CLOSED, "write file"]
    assert trace.result == accel_magic.last == "result ok"


class TestWhenTheEndFails:
    """A failure at the end of a trace never hides the outcome of the user's code."""

    full = RecordingError("cannot write t.parquet", why="no space left on device", fix="free some space", code="save.x")

    def test_the_users_error_propagates_with_a_note_about_the_other_failure(self, done):
        for fails in (
            {"finish: error": MachineError("the device is gone", code="cuda.driver-error")},
            {"write file": self.full},
        ):
            with pytest.raises(ZeroDivisionError) as caught, Traced("file", fails) as trace:
                1 / 0  # noqa: B018
            (note,) = caught.value.__notes__
            (error,) = fails.values()
            assert type(error).__name__ in note
            assert error.what in note
            assert trace.parts == set()

    def test_a_result_that_cannot_be_written_is_kept_and_the_error_says_how_to_save_it(self, done):
        with pytest.raises(RecordingError) as caught, Traced("file", {"write file": self.full}) as trace:
            pass

        assert (caught.value.what, caught.value.why, caught.value.code) == (self.full.what, self.full.why, "save.x")
        assert caught.value.fix.startswith("free some space")
        assert "accel_magic.last.to_parquet(" in caught.value.fix
        assert trace.result == accel_magic.last == "result ok"

    def test_an_interrupt_takes_precedence_and_has_the_users_error_as_context(self, done):
        class Slow(Traced):
            def _finish(self, attached, outcome, value):
                signal.raise_signal(signal.SIGINT)
                return super()._finish(attached, outcome, value)

        with pytest.raises(KeyboardInterrupt) as caught, Slow() as trace:
            1 / 0  # noqa: B018

        assert isinstance(caught.value.__context__, ZeroDivisionError)
        assert trace.result == "result error"

    def test_an_interrupt_is_not_hidden_by_a_result_that_cannot_be_written(self, done):
        class Slow(Traced):
            def _finish(self, attached, outcome, value):
                signal.raise_signal(signal.SIGINT)
                return super()._finish(attached, outcome, value)

        with pytest.raises(KeyboardInterrupt) as caught, Slow("file", {"write file": self.full}):
            pass

        assert self.full.what in caught.value.__notes__[0]

    def test_an_unwritable_destination_is_reported_before_attaching(self, tmp_path, monkeypatch, done):
        monkeypatch.delattr(Traced, "check")
        with pytest.raises(RecordingError) as caught, Traced(tmp_path / "no" / "folder" / "t.parquet"):
            done.append("block")

        assert caught.value.code == "save.no-folder"
        assert done == ["warm up", "prepare"]


def test_before_the_end_there_is_no_result_and_the_error_says_why():
    trace = Traced()
    with pytest.raises(TraceStateError) as before:
        _ = trace.result
    with trace, pytest.raises(TraceStateError) as within:
        _ = trace.result

    assert before.value.why == "its block was not entered"
    assert within.value.why == "it is still running"
    with pytest.raises(TraceStateError, match="has been traced"):
        Traced.done.clear()
        block._last = None
        _ = accel_magic.last


def test_a_second_trace_is_rejected_and_the_first_continues():
    with Traced() as trace:
        for other in (Traced(), trace):
            with pytest.raises(TraceStateError) as caught, other:
                pytest.fail("the block must not run")
            assert caught.value.code == "trace.already-running"
        assert trace.parts
        with pytest.raises(TraceStateError) as caught:
            Traced().stop()
        assert caught.value.code == "trace.not-running"

    assert trace.result == "result ok"


def test_a_forked_child_that_leaves_the_block_does_not_end_the_trace(done):
    read, write = os.pipe()
    with Traced() as trace:
        if not (child := os.fork()):
            try:
                trace.__exit__(None, None, None)
            except TraceStateError as error:
                trace.abort()
                os.write(write, f"{error.code} {len(trace.parts)}".encode())
            os._exit(0)
        os.waitpid(child, 0)

    assert os.read(read, 100) == b"trace.in-child 3"
    assert trace.result == "result ok"
    os.close(read)
    os.close(write)


@pytest.mark.usefixtures("only_new_garbage")
class TestInterrupts:
    """Whatever step is interrupted, nothing stays attached, and a block that was entered has a result."""

    def run(self, use):
        """Interrupt `use(trace)`, which appends to `done` in the block, at each of its steps; return their number."""
        for step in itertools.count():
            Traced.done.clear()
            trace = Traced("file")
            raised, run = interrupt_at(step, MODULES, lambda: use(trace))  # noqa: B023 - called right away
            with contextlib.suppress(KeyboardInterrupt):
                run()
                assert not raised, f"the interrupt was lost at {raised}"
                return step
            gc.collect()  # free the exception's frames
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            assert trace.parts == set(), raised
            assert Traced.done.count("close probes") <= 1, raised
            if "block" in Traced.done:
                assert trace.has_result, raised
            trace_kinds.claim("ktrace")  # nobody has it
            trace_kinds.release("ktrace")
        return None

    def test_during_a_with_statement(self):
        def use(trace):
            with trace:
                Traced.done.append("block")

        assert self.run(use) > 150

    def test_during_a_block_that_raises(self):
        def use(trace):
            with contextlib.suppress(ZeroDivisionError), trace:
                Traced.done.append("block")
                1 / 0  # noqa: B018

        assert self.run(use) > 150

    def test_during_a_decorated_function(self):
        def use(trace):
            @trace
            def function():
                return None

            function()

        assert self.run(use) > 150

    def test_looking_at_a_running_trace_does_not_end_it(self, done):
        with Traced() as trace:
            _ = trace.__exit__
            assert hasattr(trace, "__exit__")
            gc.collect()
            assert trace.parts
        with contextlib.ExitStack() as stack:
            other = stack.enter_context(Traced())
            gc.collect()
            assert other.parts
        third = Traced()
        assert third.__exit__
        third.__enter__()
        gc.collect()
        assert third.parts
        third.__exit__(None, None, None)

        assert [each.result for each in (trace, other, third)] == ["result ok"] * 3


def test_a_decorated_function_is_traced_at_every_call(done):
    trace = Traced("file")

    @trace
    def halved(number):
        """The docstring."""
        done.append(number)
        return number // 2

    assert (halved(8), halved(number=2)) == (4, 1)
    assert (halved.__name__, halved.__doc__) == ("halved", "The docstring.")
    end = ["halt", "finish: ok", *CLOSED, "write file"]
    assert done == [*BEGUN, 8, *end, *BEGUN, 2, *end]
    with pytest.raises(TraceStateError, match="no result yet"):  # calls may overlap, so each has its own trace
        _ = trace.result


def trace():
    return accel_magic.trace("latency:uprobe:libc:malloc", scope="all", save="a")


def flame():
    return accel_magic.flame("uprobe:libc:malloc", rate=499, save="a")


def gputrace():
    return accel_magic.gputrace("threadhist", "on_launch=uprobe:cuda:cuLaunchKernel", device="cpu", save="a")


def program():
    return accel_magic.trace_program("sizes.bpf.c", "on_malloc=uprobe:libc:malloc")


@pytest.mark.parametrize("make", [trace, flame, gputrace, program])
def test_again_copies_the_arguments_of_every_kind_of_trace(make):
    one = make()
    other = one.again()

    assert other is not one
    assert type(other) is type(one)
    same = ("_save", "options", "probes", "names", "_given", "_bindings", "path")
    assert [vars(other).get(name) for name in same] == [vars(one).get(name) for name in same]
    with pytest.raises(TraceStateError, match="no result yet"):
        _ = other.result
