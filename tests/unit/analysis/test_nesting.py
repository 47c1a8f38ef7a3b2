import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.analysis.nesting import enclosing


def asked(calls, moments):
    calls = np.array(calls, np.int64).reshape(-1, 3)
    moments = np.array(moments, np.int64).reshape(-1, 2)
    return enclosing(*calls.T, *moments.T).tolist()


def test_the_innermost_call_of_the_thread_is_found():
    calls = [(1, 0, 100), (1, 10, 20), (1, 30, 60), (1, 40, 50), (2, 0, 100)]

    assert asked(calls, [(1, 5), (1, 15), (1, 25), (1, 45), (1, 55), (2, 45), (1, 101), (3, 45)]) == [
        0, 1, 0, 3, 2, 4, -1, -1,
    ]  # fmt: skip


def test_a_calls_own_entry_is_inside_its_caller():
    assert asked([(1, 0, 100), (1, 10, 20)], [(1, 0), (1, 10)]) == [-1, 0]


def test_without_calls_nothing_encloses_a_moment():
    assert asked([], [(1, 5)]) == [-1]
    assert asked([(1, 0, 1)], []) == []


@st.composite
def nested_calls(draw):
    """Nested calls of two threads with distinct times, from a random walk."""
    calls, time = [], 0
    for tid in (7, 8):
        open_calls = []
        for enter in draw(st.lists(st.booleans(), max_size=30)):
            time += 2
            if enter:
                open_calls.append((tid, time))
            elif open_calls:
                calls.append((*open_calls.pop(), time))
        while open_calls:
            time += 2
            calls.append((*open_calls.pop(), time))
    moments = draw(st.lists(st.tuples(st.sampled_from([7, 8]), st.integers(0, 70).map(lambda at: 2 * at + 1))))
    return draw(st.permutations(calls)), moments


@given(nested_calls())
def test_enclosing_calls_match_a_plain_search(case):
    calls, moments = case

    def slowly(tid, at):
        around = [number for number, (thread, start, end) in enumerate(calls) if thread == tid and start < at < end]
        return max(around, key=lambda number: calls[number][1], default=-1)

    assert asked(calls, moments) == [slowly(*moment) for moment in moments]
