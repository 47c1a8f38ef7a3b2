"""What all kinds of traces have in common: the block, the decorator, the result."""

import pytest

import accel_magic
from accel_magic import block
from accel_magic.errors import TraceStateError


class Steps(block.Block):
    """A trace of nothing that writes down what it is asked to do; `fails` names steps that raise."""

    done: list

    def __init__(self, save=None, fails=(), interrupted=False):
        super().__init__(save)
        self.fails, self.interrupted = fails, interrupted
        self.attached = False

    def step(self, name):
        self.done.append(name)
        if name in self.fails:
            raise RuntimeError(name)

    def _warm_up(self):
        self.step("warm up")

    def prepare(self):
        self.step("prepare")

    def attach(self):
        self.step("attach")
        self.attached = True

    def go(self):
        self.step("go")

    def stop(self, outcome="ok", value=None):
        self.step(f"stop: {outcome}")
        self.attached = False
        return self._end(f"result {len(self.done)}", self.write, interrupted=self.interrupted)

    def write(self, path):
        self.step(f"write {path}")

    def abort(self):
        self.attached = False
        self.step("abort")

    def again(self):
        return Steps(self._save, self.fails, self.interrupted)

    @property
    def _running(self):
        return self.attached


@pytest.fixture(autouse=True)
def done(monkeypatch):
    monkeypatch.setattr(block, "_last", None)
    monkeypatch.setattr(Steps, "done", [], raising=False)
    return Steps.done


def test_a_block_is_prepared_attached_run_and_stopped(done):
    with Steps() as trace:
        done.append("block")

    assert done == ["warm up", "prepare", "attach", "go", "block", "stop: ok"]
    assert trace.result == accel_magic.last == "result 6"


@pytest.mark.parametrize(("error", "outcome"), [(ValueError, "error"), (KeyboardInterrupt, "interrupted")])
def test_a_block_that_raises_has_a_result_and_its_error_goes_on(done, error, outcome):
    with pytest.raises(error), Steps("file") as trace:
        raise error

    assert done[-2:] == [f"stop: {outcome}", "write file"]
    assert trace.result == "result 5"


def test_what_fails_when_the_block_begins_leaves_nothing_attached(done):
    trace = Steps(fails=["go"])
    with pytest.raises(RuntimeError, match="go"), trace:
        done.append("block")

    assert done == ["warm up", "prepare", "attach", "go", "abort"]
    assert not trace.attached


def test_an_interrupt_that_was_put_off_is_raised_once_the_result_is_kept_and_written(done):
    with pytest.raises(KeyboardInterrupt), Steps("file", interrupted=True) as trace:
        pass

    assert done[-1] == "write file"
    assert trace.result == accel_magic.last


def test_before_the_end_there_is_no_result_and_the_reason_is_told():
    trace = Steps()
    with pytest.raises(TraceStateError) as before:
        _ = trace.result
    with trace, pytest.raises(TraceStateError) as within:
        _ = trace.result

    assert before.value.why == "its block was not entered"
    assert within.value.why == "it is still running"
    with pytest.raises(TraceStateError, match="has been traced"):
        Steps.done.clear()
        block._last = None
        _ = accel_magic.last


def test_a_decorated_function_is_traced_at_every_call(done):
    trace = Steps("file")

    @trace
    def halved(number):
        """Told as before."""
        done.append(number)
        return number // 2

    assert (halved(8), halved(number=2)) == (4, 1)
    assert (halved.__name__, halved.__doc__) == ("halved", "Told as before.")
    begin, end = ["warm up", "prepare", "attach", "go"], ["stop: ok", "write file"]
    assert done == [*begin, 8, *end, *begin, 2, *end]
    with pytest.raises(TraceStateError, match="no result yet"):  # calls may overlap: each has a trace of its own
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
def test_every_kind_of_trace_is_made_again_as_it_was_asked_for(make):
    one = make()
    other = one.again()

    assert other is not one
    assert type(other) is type(one)
    same = ("_save", "options", "probes", "names", "_given", "_bindings", "path")
    assert [vars(other).get(name) for name in same] == [vars(one).get(name) for name in same]
    with pytest.raises(TraceStateError, match="no result yet"):
        _ = other.result
