"""Weights of stacks over time, compared with sums cell by cell; and what is left out if a page has too little space."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.recording.profile import ProfileBuilder, ProfileSamples, ThreadState
from accel_magic.views.flame.flame_layout import tree
from accel_magic.views.flame.heatmap_cells import Grid
from accel_magic.views.flame.page_data import size, timed_data
from accel_magic.views.flame.timed import timed

GRID = Grid(column_ns=30, rows=4, columns=5)
PLENTY = 10**6
SAMPLES = st.lists(
    st.tuples(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=4),
        st.integers(0, 149),  # time
        st.integers(0, 60),  # weight
        st.sampled_from(ThreadState),
    ),
    min_size=1,
    max_size=25,
)


def profile(samples):
    builder = ProfileBuilder()
    for names, time, weight, state in samples:
        stack = builder.stack([builder.frame(name, FrameKind.NATIVE) for name in names])
        builder.add(stack, weight, time_ns=time, tid=1, state=state)
    return builder.build(unit="ns", duration_ns=150)


def paths(drawn):
    found = [""]
    for node, parent in enumerate(drawn.parents.tolist()[1:], 1):
        found.append(f"{found[parent]}/{drawn.frames[drawn.node_frames[node]].name}")
    return found


def bounds(grid):
    """The first ns of each cell, and the end."""
    return [
        -(-(column * grid.rows + row) * grid.column_ns // grid.rows) if row else column * grid.column_ns
        for column in range(grid.columns)
        for row in range(grid.rows)
    ] + [grid.columns * grid.column_ns]


def expected(samples, grid):
    """Weight by path, cell and state, ns by ns; waits beyond the grid's end count in its last cell."""
    edges, sums = bounds(grid), Counter()
    for names, time, weight, state in samples:
        path = "".join(f"/{name}" for name in names)
        begin = int(np.searchsorted(edges, time, "right")) - 1
        if state == ThreadState.CPU:
            sums[path, begin, int(state)] += weight
            continue
        for ns in range(time, time + weight):
            cell = min(int(np.searchsorted(edges, ns, "right")) - 1, grid.columns * grid.rows - 1)
            sums[path, cell, int(state)] += 1
    return +sums


def spread(found, names):
    """The same for a page's data: waits fill the cells between those in which they begin and end."""
    edges, sums, under_way = bounds(found.grid), Counter(), Counter()
    rows = list(zip(found.node, found.cell, found.state, found.weight, found.begun, found.ended, strict=True))
    for cell in range(len(edges) - 1):
        here = [row for row in rows if row[1] == cell]
        for node, _, state, weight, _, ended in here:
            under_way[int(node), int(state)] -= int(ended)
            sums[names[node], cell, int(state)] += int(weight)
        for (node, state), count in under_way.items():
            sums[names[node], cell, state] += count * (edges[cell + 1] - edges[cell])
        for node, _, state, _, begun, _ in here:
            under_way[int(node), int(state)] += int(begun)
    assert not any(under_way.values())
    return +sums


@given(SAMPLES)
def test_every_stack_keeps_its_weight_in_every_cell_and_state(samples):
    made = profile(samples)
    drawn = tree(made)
    found = timed(drawn, made, GRID, PLENTY)

    assert spread(found, paths(drawn)) == expected(samples, GRID)
    assert (found.grid, found.folded) == (GRID, 0)


def totals(sums):
    """Sums by path, cell and state, including callees."""
    found = Counter()
    for (path, cell, state), weight in sums.items():
        for end in range(len(path), -1, -2):
            found[path[:end], cell, state] += weight
    return found


@given(SAMPLES, st.integers(1, 400))
def test_with_little_space_a_frame_keeps_all_of_its_weight_or_counts_as_its_caller(samples, room):
    made = profile(samples)
    drawn = tree(made)
    found = timed(drawn, made, GRID, room)
    ours, wanted = totals(spread(found, paths(drawn))), totals(expected(samples, found.grid))

    shown = {path for path, _, _ in ours}
    assert ours == Counter({key: weight for key, weight in wanted.items() if key[0] in shown})
    assert len({path for path, _, _ in wanted}) - len(shown) <= found.folded
    assert (GRID.rows % found.grid.rows, found.grid.columns) == (0, GRID.columns)


def steady(*, burst):
    """A function with nearly all of 30,000 samples, a hundred with one each, optionally one with a whole second."""
    builder = ProfileBuilder()
    main = builder.node(builder.frame("main"))
    nodes = [builder.node(builder.frame(f"f{number}"), main) for number in range(100)]
    once = builder.node(builder.frame("once"), main)
    count = 30_000
    stack = np.full(count, main, np.int32)
    time = np.sort(np.random.default_rng(1).integers(0, 10 * 10**9, count))
    if burst:
        stack[time // 10**9 == 4] = once
    stack[150::300] = nodes
    zeros = np.zeros(count, np.int32)
    samples = ProfileSamples(stack, np.ones(count, np.int64), time, zeros, zeros.astype(np.uint8))
    return replace(builder.build(), samples=samples)


@pytest.mark.parametrize("burst", [False, True])
def test_frames_light_in_every_column_are_folded_first_and_a_burst_stays(burst):
    made = steady(burst=burst)
    drawn = tree(made)
    grid = Grid(column_ns=10**9, rows=50, columns=10)
    found = timed(drawn, made, grid, 500)

    names = [drawn.frames[drawn.node_frames[node]].name for node in np.unique(found.node)]
    assert names == (["main", "once"] if burst else ["main"])
    assert found.folded == len(drawn.depths) - len(names) - 1
    assert found.grid.rows < 50
    assert size(timed_data(found)) <= 500
    assert found.weight.sum() == made.total


def test_light_frames_that_are_heavy_together_count_as_their_common_caller():
    builder = ProfileBuilder()
    main = builder.node(builder.frame("main"))
    busy = builder.node(builder.frame("busy"), main)
    calls = [builder.node(builder.frame(f"f{number}"), busy) for number in range(100)]
    times = np.sort(np.random.default_rng(1).integers(0, 10**10, 30_000))
    for number, time in enumerate(times.tolist()):
        builder.add(main if number % 300 else calls[number // 300], 1, time_ns=time)
    made = builder.build()
    drawn = tree(made)
    found = timed(drawn, made, Grid(column_ns=10**9, rows=50, columns=10), 500)

    names = [drawn.frames[drawn.node_frames[node]].name for node in found.node]
    assert set(names) == {"main", "busy"}
    assert found.weight[[name == "busy" for name in names]].sum() == 100


def test_a_long_wait_makes_no_other_frame_light():
    builder = ProfileBuilder()
    main, once, lock = (builder.node(builder.frame(name)) for name in ("main", "once", "lock"))
    rng = np.random.default_rng(1)
    for number, time in enumerate(np.sort(rng.integers(0, 300 * 10**9, 30_000)).tolist()):
        builder.add(once if 400 <= number < 410 else main, 10_000_000 + number, time_ns=time)
    builder.add(lock, 295 * 10**9, time_ns=4 * 10**9, state=ThreadState.OFF_CPU)
    made = builder.build(unit="ns")
    drawn = tree(made)
    found = timed(drawn, made, Grid(column_ns=10**9, rows=50, columns=300), 20_000)

    assert found.grid.rows < 50
    assert {drawn.frames[drawn.node_frames[node]].name for node in found.node} == {"main", "once", "lock"}


def test_data_that_fits_is_kept_whole_even_if_only_without_a_second_list():
    made = steady(burst=True)
    drawn = tree(made)
    grid = Grid(column_ns=10**9, rows=50, columns=10)
    needed = size(timed_data(timed(drawn, made, grid, PLENTY)))

    assert timed(drawn, made, grid, needed).grid == grid
    assert timed(drawn, made, grid, needed - 100, spare=100).folded == 0
    assert timed(drawn, made, grid, needed - 1).folded > 0
