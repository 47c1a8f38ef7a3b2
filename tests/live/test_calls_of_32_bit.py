"""32-bit calls from 64-bit code (int $0x80), 32-bit programs, x32: none is taken for a 64-bit call."""

import subprocess

import pytest

from accel_magic import trace
from accel_magic.errors import MachineError
from accel_magic.kernel import btf, syscall_numbers

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("nothing_attached")]

EACH = 200
SEMGET = "t:syscalls:sys_enter_semget"
RETURNED = "t:syscalls:sys_exit_semget"


@pytest.fixture(scope="module")
def small_program(build):
    """A 32-bit program that makes EACH 32-bit calls with number 64, and no 64-bit calls."""
    try:
        return build("small32", "-m32", "-nostdlib", "-static", f"-DCALLS={EACH}")
    except subprocess.CalledProcessError:
        pytest.skip("this compiler makes no 32-bit programs")


@pytest.fixture
def run_both(run, build, small_program):
    """Run both programs; return the calls that the 64-bit one made."""

    def run_both_():
        told = run(build("compat"), EACH)
        subprocess.run([small_program], check=True)
        return told

    return run_both_


@pytest.mark.parametrize("scope", ["self", "all"])
@pytest.mark.parametrize("mode", ["count", "events"])
def test_only_entries_and_returns_of_64_bit_calls_are_counted(run_both, hits_of, mode, scope):
    with trace(SEMGET, RETURNED, mode=mode, scope=scope, filter="comm == 'compat' or comm == 'small32'") as t:
        told = run_both()

    assert (told["entry32"], told["entry64"]) == (EACH, 2 * EACH)
    assert hits_of(t.result) == {"sys_enter_semget": 2 * EACH, "sys_exit_semget": 2 * EACH}
    if mode == "events":
        assert t.result.events["pid"].unique().tolist() == [told["pid"]]


@pytest.mark.parametrize("mode", ["count", "events"])
def test_only_64_bit_calls_are_measured_and_each_has_its_return(run_both, mode):
    with trace(f"latency:{SEMGET}", mode=mode) as t:
        told = run_both()

    latency = t.result.latency.iloc[0]
    assert (t.result.hits, latency["count"], latency["unfinished"]) == (told["entry64"], told["entry64"], 0)


def test_32_bit_calls_are_excluded_for_calls_with_unknown_numbers_too(run_both, monkeypatch):
    # Calls newer than the list of numbers go through perf's tracepoints.
    monkeypatch.delitem(syscall_numbers.NUMBERS, "semget")

    with trace(RETURNED, f"latency:{SEMGET}") as t:
        told = run_both()

    assert t.result.counts["hits"].tolist() == [told["entry64"]] * 2
    assert t.result.latency["count"].tolist() == [told["entry64"]]


def test_a_wait_in_a_32_bit_call_has_no_64_bit_call(build, run):
    with trace("offcpu", filter="comm == 'compat'") as t:
        told = run(build("compat"), 20)

    # The program never calls sync, which has the number of the 32-bit nanosleep.
    waits = t.result.events.query("duration_ns >= 1000000")["syscall"].value_counts()
    assert told["naps32"] == 20
    assert waits[-1] >= 15  # on a busy machine, the end of a wait may be hidden by another
    assert syscall_numbers.NUMBERS["sync"] not in waits


def test_without_type_information_a_note_lists_the_indistinguishable_calls(run_both, hits_of, monkeypatch):
    def none(structure, member):
        raise MachineError(
            "the kernel's type information cannot be read", why="there is none here", code="kernel.no-btf"
        )

    monkeypatch.setattr(btf, "member_offset", none)

    with trace(SEMGET, RETURNED, scope="all", filter="comm == 'compat' or comm == 'small32'") as t:
        told = run_both()

    both = told["entry64"] + told["entry32"]
    assert hits_of(t.result) == {"sys_enter_semget": both, "sys_exit_semget": both}
    assert any("int $0x80" in note for note in t.result.recording.notes)
