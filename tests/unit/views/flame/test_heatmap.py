"""The heatmap: the cells of samples, and the drawn cells, read back from the models."""

import json
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from bokeh.embed import json_item
from bokeh.models import ColorBar, ColumnDataSource, CustomJS, Image, Plot
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.errors import ResultError
from accel_magic.recording.profile import NO_TIME, ProfileBuilder, ThreadState
from accel_magic.views.flame.heatmap import SHADES, cells_of, heatmap
from accel_magic.views.flame.heatmap_cells import MOST_COLUMNS, grid_of, sums
from tests.support.errors import raises
from tests.support.profiles import phases

SECOND = 1_000_000_000


def at_times(times, weights=None, *, unit="ns", state=ThreadState.CPU, **fields):
    """A profile of one function with samples at these times, ns."""
    builder = ProfileBuilder()
    stack = builder.stack([builder.frame("main")])
    for time, weight in zip(times, [1] * len(times) if weights is None else weights, strict=True):
        builder.add(stack, int(weight), time_ns=int(time), tid=1, state=state)
    return builder.build(unit=unit, **fields)


def drawn(profile):
    layout = heatmap(profile, ColumnDataSource({"cells": []}))
    return layout, layout.select_one({"type": Plot})


def shades(profile):
    """The image of all cells, (rows, columns), 0 for cells that are not drawn."""
    _, plot = drawn(profile)
    images = [renderer for renderer in plot.renderers if isinstance(renderer.glyph, Image)]
    return images[0].data_source.data["image"][0]


def labels(profile):
    bar = drawn(profile)[0].select_one({"type": ColorBar})
    return [bar.major_label_overrides[tick] for tick in bar.ticker.ticks]


def test_a_cell_is_a_fiftieth_of_a_second_and_cells_are_numbered_in_order_of_time():
    often = phases([(0, 120, "main")])
    times = often.samples.time_ns
    assert cells_of(often).tolist() == (times // SECOND * 50 + times % SECOND // 20_000_000).tolist()
    assert cells_of(often, rows=10).tolist() == (times // SECOND * 10 + times % SECOND // 100_000_000).tolist()
    edges = np.array([0, 19_999_999, 20_000_000, 999_999_999, SECOND, 61_500_000_000, 119_999_999_999])
    assert grid_of(often).cells(edges).tolist() == [0, 0, 1, 49, 50, 61 * 50 + 25, 119 * 50 + 49]


@pytest.mark.parametrize(
    ("duration_s", "hz", "column_s", "rows", "columns"),
    [
        (120, 99, 1, 50, 120),
        (300, 99, 1, 50, 300),
        (301, 99, 2, 50, 151),
        (7200, 9, 30, 50, 240),
        (20, 99, 1, 50, 20),
        (19, 99, 0.5, 25, 38),
        (2, 1000, 0.1, 50, 20),
        (2, 99, 0.1, 5, 20),
        (60, 49, 1, 25, 60),
        (60, 1, 1, 1, 60),
    ],
)
def test_short_and_long_profiles_get_a_grid_that_suits_them(duration_s, hz, column_s, rows, columns):
    times = np.arange(duration_s * hz) * SECOND // hz
    grid = grid_of(at_times(times, duration_ns=duration_s * SECOND))
    assert (grid.column_ns / SECOND, grid.rows, grid.columns) == (column_s, rows, columns)


def test_waits_do_not_add_rows_that_the_sample_rate_cannot_fill():
    waits = [(0.001 * start, 0.001 * (start + 0.1), "main;lock[w]") for start in range(2000)]
    assert grid_of(phases([(0, 2, "main")], hz=100, waits=waits)).rows == 5
    assert grid_of(phases([], waits=waits)).rows == 50


@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=30), st.integers(1, 60))
def test_every_time_lies_in_its_cell_whatever_the_profile(times, rows):
    profile = at_times(times)
    grid = grid_of(profile, rows)
    assert 1 <= grid.columns <= MOST_COLUMNS
    assert 1 <= grid.rows <= rows
    for time, cell in zip(sorted(times), cells_of(profile, rows).tolist(), strict=True):
        length = Fraction(grid.column_ns, grid.rows)
        assert 0 <= cell < grid.columns * grid.rows
        assert cell * length <= time < (cell + 1) * length


def test_a_sample_without_a_time_has_no_cell_and_is_counted_in_the_page():
    profile = at_times([NO_TIME, 0, 1_500_000_000], duration_ns=60 * SECOND)
    assert cells_of(profile).tolist() == [-1, 0, 1]  # two seconds, a row each
    layout, _ = drawn(profile)
    assert {script.args.get("untimed") for script in layout.select({"type": CustomJS})} == {1}


def test_weights_and_samples_are_added_up_by_state():
    waits = [(2.5, 3.75, "main;lock[w]"), (2.505, 2.506, "main;lock[w]")]
    profile = phases([(0, 30, "main")], waits=waits)
    summed = sums(profile, grid_of(profile))
    assert summed.states == (ThreadState.CPU, ThreadState.OFF_CPU)
    assert (summed.weight[0] == 20_000_000).all()  # two samples of 10 ms in each cell
    assert (summed.samples[0] == 2).all()
    waiting = summed.weight[1]
    assert np.flatnonzero(waiting).tolist() == list(range(2 * 50 + 25, 3 * 50 + 38))  # 2.50 s to 3.76 s
    assert waiting[2 * 50 + 25] == 20_000_000 + 1_000_000
    assert (waiting[2 * 50 + 26 : 3 * 50 + 37] == 20_000_000).all()
    assert waiting[3 * 50 + 37] == 10_000_000
    assert summed.samples[1, 2 * 50 + 25] == summed.samples[1].sum() == 2  # where they begin


@given(
    st.lists(st.tuples(st.integers(0, 10**11), st.integers(0, 10**11)), min_size=1, max_size=20),
    st.integers(1, 60),
)
def test_a_wait_counts_in_each_cell_with_its_time_there(waits, rows):
    builder = ProfileBuilder()
    stack = builder.stack([builder.frame("lock")])
    for time_ns, length in waits:
        builder.add(stack, length, time_ns=time_ns, state=ThreadState.OFF_CPU)
    profile = builder.build(unit="ns", duration_ns=max(time_ns + length for time_ns, length in waits))
    grid = grid_of(profile, rows)
    starts = [-(-cell * grid.column_ns // grid.rows) for cell in range(grid.columns * grid.rows + 1)]
    cells = list(pairwise(starts))

    expected = [sum(max(min(t + n, end) - max(t, start), 0) for t, n in waits) for start, end in cells]

    assert sums(profile, grid).weight[0].tolist() == expected


def test_only_cells_with_samples_have_a_color():
    image = shades(phases([(0, 0.5, "main"), (0.5, 1, "main;f"), (0.5, 1, "main;f"), (29.98, 30, "main")]))
    assert image.shape == (50, 30)
    assert (image[:25, 0] == SHADES // 2 + 1).all()  # half of the heaviest
    assert (image[25:, 0] == SHADES).all()
    assert image[49, 29] == SHADES // 2 + 1
    assert np.count_nonzero(image) == 51


def test_each_additional_sample_changes_the_shade():
    times = [second * SECOND for second in range(20) for _ in range(1 + second % 4)]
    image = shades(at_times(times, unit="samples", duration_ns=20 * SECOND))
    assert image.tolist() == [[11, 21, 31, 40] * 5]  # a quarter, half, three quarters, all of 40 shades


def test_a_few_heavy_cells_leave_the_shades_to_the_others():
    times = np.arange(3000) * 10_000_000
    weights = 500_000 * (1 + np.arange(3000) // 2 % 20)
    even = shades(at_times(times, weights))
    weights[1400] = 5 * SECOND
    uneven = shades(at_times(times, weights))
    assert len(np.unique(even)) == 20
    assert np.argwhere(even != uneven).tolist() == [[700 % 50, 700 // 50]]
    assert (even.max(), uneven[700 % 50, 700 // 50]) == (SHADES, SHADES + 1)
    assert labels(at_times(times, weights)) == ["0", "5 ms", "10 ms", "15 ms", "> 20 ms"]
    assert drawn(at_times(times, weights))[1].title.text.endswith("; heaviest cell: 5 s")


def test_weights_of_all_magnitudes_have_different_shades():
    times = np.arange(3000) * 10_000_000
    weights = 10 ** np.linspace(3, 9, 3000)
    image = shades(at_times(times, weights)).T.ravel().astype(int)
    assert (np.diff(image) >= 0).all()
    assert image[749] in (SHADES // 2, SHADES // 2 + 1)  # the median cell
    assert np.bincount(image).max() < 0.1 * len(image)
    assert labels(at_times(times, weights)) == ["0", "100 us", "1 ms", "10 ms", "100 ms", "1 s"]


@pytest.mark.parametrize("heaviest", [3, 300, 70_000, 5_000_000_000])
def test_the_page_has_exact_weights_of_any_size(heaviest):
    profile = at_times([0, SECOND, 1_500_000_000], [1, 2, heaviest], duration_ns=30 * SECOND)
    (script,) = {script for script in drawn(profile)[0].select({"type": CustomJS}) if "weights" in script.args}
    (weights,) = script.args["weights"]
    assert weights.tolist() == [1, 2 + heaviest, *[0] * 28]
    assert script.args["samples"][0].tolist() == [1, 2, *[0] * 28]


@pytest.mark.parametrize(
    ("unit", "weights", "texts"),
    [
        ("samples", [1, 2, 3], ["0", "1", "2", "3"]),
        ("bytes", [1 << 20, 3 << 20], ["0", "1 MiB", "2 MiB", "3 MiB"]),
        ("calls", [4000], ["0", "1 k", "2 k", "3 k", "4 k"]),
        ("ns", [40_000_000], ["0", "10 ms", "20 ms", "30 ms", "40 ms"]),
    ],
)
def test_the_legend_uses_the_units_of_the_profile(unit, weights, texts):
    assert labels(at_times(np.arange(len(weights)) * SECOND, weights, unit=unit, duration_ns=60 * SECOND)) == texts


def test_hours_of_samples_take_no_more_space_than_minutes():
    times = np.sort(np.random.default_rng(1).integers(0, 5 * 3600 * SECOND, 200_000))
    layout, _ = drawn(at_times(times, np.full(len(times), 10_101_010)))
    assert len(json.dumps(json_item(layout))) < 250_000


def test_the_banners_of_a_profile_are_above_its_heatmap():
    layout, _ = drawn(at_times([0], banners=("REPLAY: <recorded> elsewhere",)))
    assert "REPLAY: &lt;recorded&gt; elsewhere" in layout.children[0].elements[0].html
    assert len(drawn(at_times([0]))[0].children) == 2


def test_a_profile_without_times_is_an_error():
    profile = replace(at_times([NO_TIME]), origin="folded stacks")
    with raises("result.no-times", ResultError) as error:
        drawn(profile)
    assert "folded stacks" in error.value.why
