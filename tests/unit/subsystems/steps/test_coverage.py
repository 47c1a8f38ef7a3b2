"""Lengths of unions of intervals, beside sets of whole nanoseconds."""

import numpy as np
import pytest

from accel_magic.subsystems.steps.causes import CPU, DRIVER, FAULT, OTHER_WAITS, Activity, Spans, accounts
from accel_magic.subsystems.steps.coverage import Coverage


def intervals(random, number, groups, *, longest=30, latest=300):
    start = random.integers(0, latest, number)
    return random.integers(0, groups, number), start, start + random.integers(0, longest, number)


def moments(group, start, end, wanted):
    """Set of the whole ns that the intervals of a group cover."""
    return {ns for g, a, b in zip(group, start, end, strict=True) if g == wanted for ns in range(a, b)}


@pytest.mark.parametrize("seed", range(20))
def test_the_union_of_a_groups_intervals_is_measured_within_others(seed):
    random = np.random.default_rng(seed)
    given = intervals(random, int(random.integers(0, 40)), 4)
    asked = intervals(random, 50, 5, longest=200)

    found = Coverage(*given).within(*asked)

    assert found.tolist() == [
        len(moments(*given, group) & set(range(start, end))) for group, start, end in zip(*asked, strict=True)
    ]


def test_times_of_days_are_exact():
    day = 86_400 * 10**9
    covered = Coverage(np.array([999, 999]), np.array([30 * day, 30 * day + 5]), np.array([30 * day + 3, 30 * day + 6]))

    assert covered.within(np.array([999, 0]), np.array([0, 0]), np.array([60 * day, 60 * day])).tolist() == [4, 0]


@pytest.mark.parametrize("seed", range(20))
def test_each_moment_counts_for_one_cause_the_first_that_applies(seed):
    random = np.random.default_rng(seed)
    names = ("sleep", "lock", *(f"reason {n}" for n in range(14)))
    spans = {kind: Spans(*intervals(random, 60, 3)) for kind in ("apart", "driver", "faults")}
    # A thread waits for one thing at a time.
    edges = [np.sort(random.choice(400, 120, replace=False)).reshape(-1, 2) for _ in range(3)]
    waits = Spans(np.repeat(np.arange(3), 60), *(np.concatenate([edge[:, side] for edge in edges]) for side in (0, 1)))
    reasons = random.integers(0, len(names), 180)
    own = Spans(*intervals(random, 40, 3, longest=150))

    found = accounts(own, spans["apart"], Activity(spans["driver"], spans["faults"], waits, reasons, names))

    for at, (thread, start, end) in enumerate(zip(own.thread, own.start, own.end, strict=True)):
        left = set(range(start, end)) - moments(*vars(spans["apart"]).values(), thread)
        for name, kind in ((DRIVER, "driver"), (FAULT, "faults")):
            taken = left & moments(*vars(spans[kind]).values(), thread)
            assert found[name][at] == len(taken)
            left -= taken
        by_reason = dict.fromkeys(names, 0)
        for reason, *wait in zip(reasons, waits.thread, waits.start, waits.end, strict=True):
            by_reason[names[reason]] += len(left & moments(*([one] for one in wait), thread))
        shown = {name for name in names if name in found}
        assert {name: found[name][at] for name in shown} == {name: by_reason[name] for name in shown}
        assert found[OTHER_WAITS][at] == sum(by_reason[name] for name in names if name not in shown)
        assert found[CPU][at] == len(left) - sum(by_reason.values())
    assert len(shown) == 12


def test_without_waits_neither_they_nor_the_cpu_are_known():
    one = Spans(np.array([0]), np.array([0]), np.array([10]))
    none = Spans(*(np.zeros(0, np.int64),) * 3)

    assert accounts(one, none, Activity()) == {}
    assert {name: values.tolist() for name, values in accounts(one, none, Activity(driver=one)).items()} == {
        DRIVER: [10]
    }
