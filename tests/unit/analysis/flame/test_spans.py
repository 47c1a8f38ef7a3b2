"""Spans: measured calls that enclose a moment of a thread, and intervals cut where calls start and end."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.analysis.flame.rows import nesting


def ints(*values):
    return np.array(values, np.int64)


def paths_at(found, tids, times):
    return [found.paths[number] for number in found.at(ints(*tids), ints(*times))]


def test_a_moment_is_in_the_calls_that_have_not_returned_outermost_first():
    found = nesting(ints(7, 7, 8), ints(100, 150, 120), ints(300, 200, 220), ints(1, 2, 3))

    moments = [(99, ()), (100, (1,)), (149, (1,)), (150, (1, 2)), (199, (1, 2)), (200, (1,)), (299, (1,)), (300, ())]
    assert paths_at(found, [7] * 8, [at for at, _ in moments]) == [path for _, path in moments]
    assert paths_at(found, [8, 8, 9], [130, 220, 130]) == [(3,), (), ()]


def test_an_interval_is_cut_where_a_call_starts_or_ends_and_its_pieces_add_up():
    found = nesting(ints(7, 7), ints(100, 150), ints(300, 200), ints(1, 2))
    pieces = found.cut(ints(7, 7, 9), ints(50, 160, 60), ints(300, 10, 5))

    pieces_found = [
        (int(row), int(start), int(length), found.paths[path]) for row, start, length, path in zip(*pieces, strict=True)
    ]
    assert pieces_found == [
        (0, 50, 50, ()),
        (0, 100, 50, (1,)),
        (0, 150, 50, (1, 2)),
        (0, 200, 100, (1,)),
        (0, 300, 50, ()),
        (1, 160, 10, (1, 2)),
        (2, 60, 5, ()),
    ]


def test_without_calls_everything_is_outside_and_uncut():
    found = nesting(ints(), ints(), ints(), ints())

    assert paths_at(found, [1, 2], [5, 6]) == [(), ()]
    pieces = found.cut(ints(1), ints(5), ints(10))
    assert [each.tolist() for each in pieces] == [[0], [5], [10], [0]]


@st.composite
def nested_calls(draw):
    """Calls (tid, start, end, point) of a few threads, nested or consecutive within a thread."""
    calls = []

    def fill(tid, start, end, depth):
        at = start
        while depth and at < end and draw(st.booleans()):
            begin = draw(st.integers(at, end - 1))
            until = draw(st.integers(begin + 1, end))
            calls.append((tid, begin, until, draw(st.integers(0, 3))))
            if until - begin > 2:
                fill(tid, begin + 1, until - 1, depth - 1)
            at = until

    for tid in range(draw(st.integers(1, 3))):
        fill(tid, 0, 40, 3)
    return calls


@given(nested_calls(), st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 45), st.integers(0, 30)), max_size=8))
def test_moments_and_cuts_match_a_search_of_every_nanosecond(calls, stretches):
    found = nesting(*(ints(*column) for column in (zip(*calls, strict=True) if calls else [()] * 4)))

    def path_at(tid, at):
        under_way = [call for call in calls if call[0] == tid and call[1] <= at < call[2]]
        return tuple(point for *_, point in sorted(under_way, key=lambda call: (call[1], -call[2])))

    for tid, at, _ in stretches:
        assert paths_at(found, [tid], [at]) == [path_at(tid, at)]
    columns = zip(*stretches, strict=True) if stretches else [()] * 3
    pieces = found.cut(*(ints(*column) for column in columns))
    spent = {}
    for row, start, length, path in zip(*pieces, strict=True):
        for at in range(start, start + length):
            assert (row, at) not in spent
            spent[int(row), int(at)] = found.paths[path]
    expected = {
        (row, at): path_at(tid, at)
        for row, (tid, start, length) in enumerate(stretches)
        for at in range(start, start + length)
    }
    assert spent == expected
