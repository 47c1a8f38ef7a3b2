"""How late ranks are, beside dicts and loops over the same steps and collectives."""

import statistics

import numpy as np
import pandas as pd
import pytest

from accel_magic.errors import ResultError
from accel_magic.subsystems.steps.causes import Activity, Spans
from accel_magic.subsystems.steps.collectives import COLLECTIVES
from accel_magic.subsystems.steps.lateness import Clocks, by_collective, by_step, median_of_others
from accel_magic.subsystems.steps.steps import STEPS
from tests.support.errors import raises

pytestmark = pytest.mark.component


def steps_frame(rows):
    """Steps from (rank, step, repeat, time, own); own None: the last mark of a process."""
    frame = pd.DataFrame(
        [
            {
                "node": f"rank {rank}",
                "host": "here",
                "rank": rank,
                "pid": 10 + rank,
                "tid": 10 + rank,
                "step": step,
                "repeat": repeat,
                "time_ns": time,
                "duration_ns": own,
                "own_ns": own,
            }
            for rank, step, repeat, time, own in rows
        ],
        columns=list(STEPS),
    )
    return frame.astype(STEPS)


def calls_frame(rows):
    """Collectives from (rank, group, number, time, end), perhaps with the operation."""
    frame = pd.DataFrame(
        [
            {
                "node": f"rank {rank}",
                "host": "here",
                "rank": rank,
                "pid": 10 + rank,
                "tid": 10 + rank,
                "group": group,
                "number": number,
                "time_ns": time,
                "wait_ns": time,
                "end_ns": end,
                "operation": operation[0] if operation else "allreduce",
                "failed": False,
            }
            for rank, group, number, time, end, *operation in rows
        ],
        columns=list(COLLECTIVES),
    )
    return frame.astype(COLLECTIVES)


def same_clock(frame):
    names = frame["node"].cat.categories
    return Clocks(dict.fromkeys(names, 0), dict.fromkeys(names, "one"))


def random_steps(seed):
    """Ranks with missing steps, repeated numbers, and some that were killed early."""
    random = np.random.default_rng(seed)
    rows = []
    for rank in range(int(random.integers(2, 6))):
        last = int(random.integers(5, 20)) if random.random() < 0.4 else 20
        for repeat in range(2):
            rows += [
                (rank, step, repeat, int(random.integers(10**6)), int(random.integers(1, 10**7)))
                for step in range(last)
                if random.random() < 0.9
            ]
        rows.append((rank, last, 5, 10**6, None))
    return rows


def others(values, rank):
    return [value for other, value in values.items() if other != rank]


@pytest.mark.parametrize("seed", range(15))
def test_lateness_is_the_own_time_beyond_the_median_of_the_other_ranks(seed):
    rows = random_steps(seed)
    late_ns = 2_000_000
    by_key = {}
    for rank, step, repeat, _, own in rows:
        values = by_key.setdefault((step, repeat), {})
        if own is not None:
            values[rank] = own
    expected, per_rank = {}, {}
    for (step, repeat), values in by_key.items():
        for rank, own in values.items():
            rest = others(values, rank)
            late = own - int(statistics.median(rest) // 1) if rest else None
            expected[rank, step, repeat] = (late, len(values))
            if late is not None:
                per_rank.setdefault(rank, []).append(late)

    found = by_step(steps_frame(rows), late_ns=late_ns)

    late = [None if value is pd.NA else value for value in found.rows["late_ns"].astype(object)]
    keys = zip(found.rows["rank"], found.rows["step"], found.rows["repeat"], strict=True)
    assert dict(zip(keys, zip(late, found.rows["ranks"], strict=True), strict=True)) == expected
    matched = [values for values in by_key.values() if len(values) >= 2]
    ranks = {rank for rank, *_ in rows}
    assert (found.matched.matched, found.matched.total, found.matched.ranks) == (len(matched), len(by_key), len(ranks))
    assert found.matched.complete == sum(len(values) == len(ranks) for values in matched)
    table = found.table.set_index("rank")
    for rank, values in per_rank.items():
        over = [value for value in values if value >= late_ns]
        assert table.loc[rank, ["matched", "late", "unknown"]].tolist() == [len(values), len(over), 0]
        assert table.loc[rank, "mean_late_ns"] == pytest.approx(statistics.mean(values))
        assert table.loc[rank, "p50_late_ns"] == pytest.approx(statistics.median(values))
        assert table.loc[rank, ["max_late_ns", "total_late_ns"]].tolist() == [max(values), sum(over)]
    assert found.table["total_late_ns"].is_monotonic_decreasing


@pytest.mark.parametrize("seed", range(10))
def test_medians_of_the_others_are_those_of_each_rows_key(seed):
    random = np.random.default_rng(seed)
    keys = np.unique(random.integers(0, 20, 100), return_inverse=True)[1]
    values = random.integers(-5, 5, 100) * int(random.choice([1, 10**15]))

    median, count = median_of_others(keys, values)

    for at, key in enumerate(keys):
        rest = sorted(value for n, value in enumerate(values) if keys[n] == key and n != at)
        assert count[at] == len(rest) + 1
        half = len(rest) // 2
        pair = (rest[half - 1], rest[half]) if rest and len(rest) % 2 == 0 else (rest[half],) * 2 if rest else (0, 0)
        assert median[at] == (int(pair[0]) + int(pair[1])) // 2


def random_calls(seed):
    random = np.random.default_rng(seed)
    rows, now = [], 0
    for number in range(40):
        group = str(random.choice(["0", "even", "odd"]))
        members = range(6) if group == "0" else range(group == "odd", 6, 2)
        arrivals = {rank: now + int(random.integers(0, 5_000_000)) for rank in members if random.random() < 0.9}
        if arrivals:
            end = max(arrivals.values()) + int(random.integers(1000, 100_000))
            rows += [
                (rank, group, number, time, None if random.random() < 0.05 else end) for rank, time in arrivals.items()
            ]
            now = end
    return rows


@pytest.mark.parametrize("seed", range(15))
def test_lateness_at_collectives_is_the_arrival_after_the_median_of_the_others(seed):
    rows = random_calls(seed)
    errors = {0: 0, 1: 0, 2: 300_000, 3: 300_000, 4: 1_000_000, 5: None}
    clock = {0: "a", 1: "a", 2: "b", 3: "c", 4: "d", 5: "e"}
    name = "rank {}".format
    clocks = Clocks(
        {name(rank): error for rank, error in errors.items()}, {name(rank): one for rank, one in clock.items()}
    )
    by_key = {}
    for rank, group, number, time, end in rows:
        by_key.setdefault((group, number), {})[rank] = (time, end)

    found = by_collective(calls_frame(rows), clocks)

    unknown = dict.fromkeys(range(6), 0)
    for row in found.rows.itertuples():
        calls = by_key[row.group, row.number]
        time, end = calls[row.rank]
        rest = [other for rank, (other, _) in calls.items() if rank != row.rank]
        if not rest:
            assert row.late_ns is pd.NA
            continue
        of_all = [errors[rank] for rank in calls]
        error = None if None in of_all else errors[row.rank] + max(of_all)
        error = 0 if len({clock[rank] for rank in calls}) == 1 else error
        late = time - int(statistics.median(rest) // 1)
        if error is None or abs(late) < error:
            assert row.late_ns is pd.NA
            unknown[row.rank] += 1
        else:
            assert row.late_ns == late
        last = max(time for time, _ in calls.values())
        assert row.waited_for_late_ns == last - time
        assert (row.transfer_ns is pd.NA) == (end is None)
        if end is not None:
            assert row.transfer_ns == end - last
    assert found.table.set_index("rank")["unknown"].to_dict() == {
        rank: count for rank, count in unknown.items() if rank in set(found.table["rank"])
    }
    assert found.matched.matched == sum(len(calls) >= 2 for calls in by_key.values())


def test_places_with_different_operations_and_unknown_groups_do_not_match():
    rows = [
        (0, "0", 0, 100, 200, "broadcast"),
        (1, "0", 0, 150, 200, "allreduce"),
        (0, "0", 1, 300, 400),
        (1, "0", 1, 350, 400),
        (0, "", None, 500, 600),
    ]
    frame = calls_frame(rows)

    found = by_collective(frame, same_clock(frame))

    assert (found.matched.matched, found.matched.total) == (1, 3)
    assert found.rows["late_ns"].tolist() == [-50, 50]
    assert any("2 calls have another operation" in note for note in found.notes)
    assert any("1 calls belong to groups" in note for note in found.notes)


@pytest.mark.parametrize("rows", [[(0, 0, 0, 0, 5), (0, 1, 0, 5, 5)], [(0, 0, 0, 0, 5), (1, 1, 0, 0, 5)]])
def test_steps_of_one_rank_or_without_a_common_number_are_an_error(rows):
    with raises("stragglers.no-match", ResultError):
        by_step(steps_frame(rows))


def test_collectives_of_one_rank_are_an_error():
    frame = calls_frame([(0, "0", 0, 100, 200)])
    with raises("stragglers.no-match", ResultError, match="1 collectives of 1 rank"):
        by_collective(frame, same_clock(frame))


def spans(*rows):
    return Spans(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def test_the_cause_is_what_took_more_time_than_on_other_ranks():
    """Ranks 0 to 2 compute for 10 ms; rank 1 also sleeps 6 ms in step 0, and rank 2 is 3 ms in a driver in step 1."""
    ms = 1_000_000
    rows = [(rank, step, 0, step * 100 * ms, 10 * ms) for rank in range(3) for step in range(2)]
    rows = [
        (rank, step, repeat, time, own + {(1, 0): 6 * ms, (2, 1): 3 * ms}.get((rank, step), 0))
        for rank, step, repeat, time, own in rows
    ]
    waits = spans((1, 2 * ms, 8 * ms), (0, 0, ms), (0, 100 * ms, 101 * ms), (1, 100 * ms, 101 * ms))
    activity = Activity(
        driver=spans((2, 101 * ms, 104 * ms)), waits=waits, reasons=np.array([1, 0, 0, 0]), names=("lock", "sleep")
    )
    threads = {(f"rank {rank}", 10 + rank): rank for rank in range(3)}

    found = by_step(steps_frame(rows), None, activity, threads=threads)

    table = found.table.set_index("rank")
    assert table["late"].tolist() == [1, 1, 0]
    assert table["cause"].fillna("").to_dict() == {1: "sleep", 2: "driver", 0: ""}
    # The other ranks of step 0 waited 1 ms and 0 ms.
    assert table.loc[1, ["waiting_ns", "cpu_ns", "driver_ns"]].tolist() == [5.5 * ms, 0.5 * ms, 0]
    assert table.loc[2, ["waiting_ns", "cpu_ns", "driver_ns"]].tolist() == [-1 * ms, ms, 3 * ms]
    assert table["fault_ns"].isna().all()
    assert not any("offcpu" in note for note in found.notes)


def test_without_waits_the_cause_is_unknown_and_the_notes_say_so():
    found = by_step(steps_frame([(0, 0, 0, 0, 50_000_000), (1, 0, 0, 0, 1)]))

    assert found.table["cause"].isna().all()
    assert any("add the probe offcpu" in note for note in found.notes)
    assert any("collectives were not traced" in note for note in found.notes)


def test_what_a_rank_did_since_its_previous_collective_makes_it_late():
    ms = 1_000_000
    rows = [(0, "0", 0, 0, ms), (1, "0", 0, 0, ms), (0, "0", 1, 2 * ms, 9 * ms), (1, "0", 1, 8 * ms, 9 * ms)]
    frame = calls_frame(rows)
    # It sleeps before the first collective, too, which has nothing to do with the second.
    activity = Activity(waits=spans((1, -50 * ms, 0), (1, 3 * ms, 7 * ms)), reasons=np.array([0, 0]), names=("sleep",))

    found = by_collective(frame, same_clock(frame), activity, threads={("rank 0", 10): 0, ("rank 1", 11): 1})

    (late,) = found.table[found.table["late"] > 0].to_dict("records")
    assert (late["rank"], late["late"], late["cause"]) == (1, 1, "sleep")
    assert (late["waiting_ns"], late["cpu_ns"]) == (4 * ms, 2 * ms)
    assert found.table.set_index("rank").loc[0, ["waited_for_late_ns", "transfer_ns"]].tolist() == [3 * ms, ms]
