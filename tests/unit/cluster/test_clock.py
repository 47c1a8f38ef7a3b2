"""Clocks of many machines, compared with known truth: simulated clocks, and processes in time namespaces."""

import json
import math
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import accel_magic
from accel_magic.cluster import clock
from accel_magic.cluster.clock import DRIFT, LARGEST_NS, UNKNOWN_NS, ClockExchange, ClockLine, Reading, exchange, line

pytestmark = pytest.mark.component

S, MS, DAY = 10**9, 10**6, 86_400 * 10**9
BOOT, OTHER_BOOT = "0b5a4c9e-7d7f-4f0e-9a51-3d8f1c2b7a60", "9c1f2e3d-0a1b-4c5d-8e6f-7a8b9c0d1e2f"


class Simulated:
    """A reference and a node: integer arithmetic only, so the truth is exact.

    The reference's clock is the time, in ns. The node's is ahead by `offset_ns` at time 0 and gains `gains_ppb`.
    """

    def __init__(self, offset_ns=0, gains_ppb=0, *, start_ns=10**15, seed=0, delays_ns=(20_000, 20_000)):
        self.now_ns, self.offset_ns, self.gains_ppb = start_ns, offset_ns, gains_ppb
        self.random, self.means = random.Random(seed), delays_ns

    def node_ns(self, now_ns):
        return now_ns + now_ns * self.gains_ppb // 10**9 + self.offset_ns

    def now(self):
        return self.now_ns

    def ask(self):
        self.wait(self.means[0])
        answer = self.node_ns(self.now_ns)
        self.wait(self.means[1])
        return answer

    def wait(self, mean_ns):
        """At least half of the mean; more at random, sometimes much more."""
        self.now_ns += mean_ns // 2 + int(self.random.expovariate(2 / (mean_ns + 1)))

    def compare(self, count=16):
        return exchange(self.ask, count, now=self.now)

    @property
    def drift(self):
        """What the reference gains on the node, per ns of the node."""
        return float(1 / (1 + Fraction(self.gains_ppb, 10**9)) - 1)


def mapped(line, node_ns):
    """Mapped times and their errors, as lists."""
    times = np.array(node_ns, np.int64)
    return line.to_reference(times).tolist(), line.error_at(times).tolist()


def off_by(line, machines, moments):
    """Distance of mapped times from the truth, and the stated errors."""
    found, errors = mapped(line, [machines.node_ns(at) for at in moments])
    return [abs(one - at) for one, at in zip(found, moments, strict=True)], errors


def reading(ahead_ns=0, monotonic_ns=DAY, error_ns=None, width_ns=0, **changes):
    """A reading of a wall clock with this stated error."""
    return Reading(
        monotonic_ns=monotonic_ns,
        realtime_ns=monotonic_ns + ahead_ns,
        tai_ns=monotonic_ns + ahead_ns,
        width_ns=width_ns,
        synchronized=error_ns is not None,
        estimated_error_ns=(error_ns or 0) // 10,
        max_error_ns=error_ns or 0,
        **changes,
    )


# Simulated clocks


@given(
    offset_ns=st.integers(-10 * DAY, 10 * DAY),
    gains_ppb=st.integers(-1_190_000, 1_190_000),  # 1190 ppm
    lasts_ns=st.integers(0, 17).flatmap(lambda digits: st.integers(0, 9 * 10 ** min(digits, 14))),
    delays_ns=st.tuples(st.integers(0, 10 * MS), st.integers(0, 10 * MS)),
    both=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
@example(offset_ns=0, gains_ppb=100_000, lasts_ns=0, delays_ns=(0, 0), both=True, seed=0)
@example(offset_ns=DAY, gains_ppb=-100_000, lasts_ns=DAY, delays_ns=(10 * MS, 0), both=False, seed=0)
@example(offset_ns=0, gains_ppb=0, lasts_ns=0, delays_ns=(0, 2), both=True, seed=0)
@example(offset_ns=-DAY, gains_ppb=100_000, lasts_ns=20 * S, delays_ns=(0, 10 * MS), both=True, seed=0)
def test_the_truth_is_within_the_stated_error(*, offset_ns, gains_ppb, lasts_ns, delays_ns, both, seed):
    machines = Simulated(offset_ns, gains_ppb, seed=seed, delays_ns=delays_ns)
    first = machines.compare()
    began = machines.now_ns
    machines.now_ns += lasts_ns
    machines.means = machines.random.sample(machines.means, 2)
    last = machines.compare() if both else None
    ended = machines.now_ns

    found = line(first, last)

    moments = [machines.random.randint(began - lasts_ns - S, ended + lasts_ns + S) for _ in range(50)]
    distances, errors = off_by(found, machines, [first.before_ns, first.after_ns, began, ended, *moments])
    assert all(distance <= error for distance, error in zip(distances, errors, strict=True))
    assert abs(found.drift - machines.drift) <= found.drift_error
    assert found.how == ("exchanges at start and end" if both else "exchanges at the start only")


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("lasts_ns", [10 * MS, 10 * S, DAY])
@pytest.mark.parametrize("gains_ppb", [0, 20_000, 500_000, -1_000_000])
@pytest.mark.parametrize("delays_ns", [(40_000, 10_000), (300_000, 1_200_000)])
def test_the_stated_error_is_at_most_five_times_the_real_one_if_most_of_the_delay_is_on_one_way(
    seed, lasts_ns, gains_ppb, delays_ns
):
    # Four fifths of the round trip: the midpoint is off by three tenths of it, and half of it is stated.
    machines = Simulated(3 * DAY, gains_ppb, seed=seed, delays_ns=delays_ns)
    first = machines.compare(256)
    began = machines.now_ns
    machines.now_ns += lasts_ns
    last = machines.compare(256)

    moments = [began + lasts_ns * part // 10 for part in range(11)]
    distances, errors = off_by(line(first, last), machines, moments)

    assert all(distance <= error <= 5 * distance for distance, error in zip(distances, errors, strict=True))


def test_the_error_between_two_exchanges_is_half_of_the_wider_and_grows_outside():
    first, last = ClockExchange(1000, 501_000, 1100), ClockExchange(DAY, DAY + 500_000, DAY + 300)

    found = line(first, last)

    assert mapped(found, [501_000, DAY // 2, DAY + 500_000])[1] == [150 + 3] * 3
    _, (before, after) = mapped(found, [0, 2 * DAY])
    assert 153 < before < after
    assert after >= 153 + (50 + 150)  # the line through opposite ends of the exchanges
    assert after < 153 + 2 * (50 + 150)


def test_with_one_exchange_the_error_grows_by_the_assumed_drift():
    found = line(ClockExchange(1000, 5000, 1100), None)

    assert mapped(found, [5000, 5000 + S])[0] == [1050, 1050 + S]
    assert mapped(found, [5000, 5000 + S])[1] == [50 + 3, 50 + 3 + math.ceil(S * DRIFT)]


def test_exchanges_close_together_say_nothing_about_the_drift():
    # 40 us apart, and 10 us wide: the slope between them could be anything up to 25%.
    first, last = ClockExchange(0, DAY, 10_000), ClockExchange(40_000, DAY + 36_000, 42_000)

    found = line(first, last)

    assert (found.drift, found.drift_error) == (0, DRIFT)
    assert found.error_ns < 5000
    assert mapped(found, [DAY + 10 * S])[1][0] < 10 * S * DRIFT + 5000


@pytest.mark.parametrize("gains_ppb", [-100_000, 0, 100_000])
@pytest.mark.parametrize(("lasts_ns", "stood_still_ns"), [(60 * S, S), (DAY, DAY // 2), (DAY, 2 * DAY)])
def test_a_node_that_was_suspended_or_restarted_has_an_error_that_covers_it(lasts_ns, stood_still_ns, gains_ppb):
    before = Simulated(3 * DAY, gains_ppb)
    after = Simulated(3 * DAY - stood_still_ns, gains_ppb, start_ns=10**15 + lasts_ns)
    first, last = before.compare(), after.compare()

    found = line(first, last)

    assert found.how == "exchanges that disagree"
    for machines in (before, after):
        distances, errors = off_by(found, machines, [10**15, 10**15 + lasts_ns // 3, 10**15 + lasts_ns])
        assert all(distance <= error for distance, error in zip(distances, errors, strict=True))
    assert found.error_ns < stood_still_ns / 2 + 2 * abs(lasts_ns - stood_still_ns) * DRIFT + MS


@given(
    sleeps=st.lists(
        st.tuples(st.sampled_from(["node", "reference"]), st.integers(1, 60 * S), st.integers(2 * MS, 100 * S)),
        min_size=1,
        max_size=4,
    ),
    gains_ppb=st.integers(-1_000_000, 1_000_000),
    seed=st.integers(0, 1 << 30),
)
@example(sleeps=[("node", S, 20 * MS)], gains_ppb=0, seed=0)  # as much as a drift could explain
@example(sleeps=[("node", S, 10 * S), ("reference", S, 10 * S)], gains_ppb=0, seed=0)  # nothing is gained at the end
def test_machines_suspended_in_between_have_an_error_that_covers_every_moment(sleeps, gains_ppb, seed):
    """The reference's clock is the simulation's time, so its own sleep makes the node gain."""
    machines = Simulated(3 * DAY, gains_ppb, seed=seed)
    first, moments = machines.compare(), []
    for who, after_ns, slept_ns in sleeps:
        moments += [(now, machines.node_ns(now)) for now in (machines.now_ns, machines.now_ns + after_ns)]
        machines.now_ns += after_ns
        machines.offset_ns += slept_ns if who == "reference" else -slept_ns
        moments.append((machines.now_ns, machines.node_ns(machines.now_ns)))
    found = line(first, machines.compare(), sum(slept_ns for _, _, slept_ns in sleeps))

    times, errors = mapped(found, [node for _, node in moments])
    assert all(abs(one - now) <= error for one, error, (now, _) in zip(times, errors, moments, strict=True))
    assert found.how == "exchanges that disagree"


def test_the_order_of_the_exchanges_does_not_matter():
    machines = Simulated(DAY, 50_000)
    first = machines.compare()
    machines.now_ns += 100 * S
    last = machines.compare()

    assert line(first, last) == line(last, first)


@given(
    offset_ns=st.integers(-(10**18), 10**18),
    drift=st.floats(-1e-4, 1e-4),
    at_ns=st.integers(10**18, 10**18 + 100 * DAY),
    after_ns=st.integers(-100 * DAY, 100 * DAY),
)
def test_times_are_exact_to_the_nanosecond(offset_ns, drift, at_ns, after_ns):
    found = ClockLine(offset_ns, drift, at_ns, at_ns, 0, 0.0, 1, "wall clocks")

    exact = at_ns + after_ns + offset_ns + Fraction(drift) * after_ns

    assert abs(mapped(found, [at_ns + after_ns])[0][0] - exact) <= Fraction(501, 1000)


def test_neighboring_nanoseconds_stay_apart():
    found = ClockLine(7, 0.0, 0, 0, 0, 0.0, 1, "wall clocks")

    assert mapped(found, [10**18, 10**18 + 1])[0] == [10**18 + 7, 10**18 + 8]


def test_times_of_any_shape_are_mapped():
    found = line(ClockExchange(10, 1000, 10), None)

    for shape in ((), (0,), (2, 3)):
        times = np.full(shape, 1000, np.int64)
        assert found.to_reference(times).shape == found.error_at(times).shape == shape
        assert found.to_reference(times).dtype == found.error_at(times).dtype == np.int64


def test_times_that_would_wrap_around_are_rejected():
    found = line(ClockExchange(10, 1000, 10), None)

    for absurd in (LARGEST_NS + 1, -(1 << 63)):
        with pytest.raises(ValueError, match="beyond"):
            found.to_reference(np.array([0, absurd]))
        with pytest.raises(ValueError, match="beyond"):
            found.error_at(np.array([absurd]))


# Exchanges


def test_the_narrowest_exchange_is_used():
    # The reference's clock before and after each of three exchanges.
    times = iter([0, 50, 100, 110, 200, 230])
    answers = iter([1000, 2000, 3000])

    assert exchange(answers.__next__, 3, now=times.__next__) == ClockExchange(100, 2000, 110, count=3)
    assert next(times, None) is next(answers, None) is None


@pytest.mark.parametrize("answer", [None, "5", 5.0, True, -1, LARGEST_NS + 1, np.int64(5)])
def test_an_answer_that_is_not_a_time_is_rejected(answer):
    with pytest.raises(ValueError, match="node_ns"):
        exchange(lambda: answer, 1)


def test_at_least_one_exchange_is_made():
    with pytest.raises(ValueError, match="at least 1"):
        exchange(clock.answer, 0)


def test_a_node_answers_with_its_monotonic_clock():
    ask = pickle.loads(pickle.dumps(clock.answer))
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    assert before <= ask() <= time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    assert exchange(ask).count == 256


# Readings


def test_a_reading_brackets_all_clocks():
    clocks = (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME, time.CLOCK_TAI, time.CLOCK_BOOTTIME)
    before = [time.clock_gettime_ns(one) for one in clocks]
    found = clock.read()
    after = [time.clock_gettime_ns(one) for one in clocks]

    assert before[0] <= found.monotonic_ns - found.width_ns // 2
    assert found.monotonic_ns + found.width_ns // 2 <= after[0]
    assert before[1] <= found.realtime_ns <= after[1]
    assert before[2] <= found.tai_ns <= after[2]
    assert before[3] <= found.boottime_ns <= after[3]
    assert found.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    # stat(2) of the namespace file has the same inode number.
    assert found.time_namespace == Path("/proc/self/ns/time").stat().st_ino


@pytest.mark.parametrize(("slept_ns", "expected"), [(0, 0), (900, 0), (2500, 2500), (5 * S, 5 * S), (-S, 0)])
def test_a_machine_was_suspended_if_more_time_has_passed_since_boot(slept_ns, expected):
    # Two readings of 500 ns each, of which the clocks may be apart, and 1 us for the clocks' own differences.
    before = reading(width_ns=500, boottime_ns=2 * DAY)
    after = reading(monotonic_ns=DAY + S, width_ns=500, boottime_ns=2 * DAY + S + slept_ns)

    assert before.slept_ns(after) == expected


def test_wall_clocks_of_machines_that_were_suspended_cover_every_moment():
    def readings(at, slept_ns):
        awake = DAY + at - slept_ns
        node = reading(at - awake, awake, MS, boottime_ns=DAY + at)
        return node, reading(0, at, MS, boottime_ns=at)

    found = clock.by_wall_clock(*readings(DAY, 0), readings(DAY + 100 * S, 20 * MS))

    for node, at in ((2 * DAY + 50 * S, DAY + 50 * S), (2 * DAY + 50 * S - 20 * MS, DAY + 50 * S)):
        (time_ns,), (error_ns,) = mapped(found, [node])
        assert abs(time_ns - at) <= error_ns
    assert found.how == "wall clocks"


def test_a_machine_without_proc_has_no_identity(tmp_path):
    assert clock._identity(tmp_path) == ("", 0)


def test_readings_of_one_machine_are_the_same_clock():
    assert clock.same_clock(clock.read(), clock.read())


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (reading(S, 2 * DAY, boot_id=BOOT, time_namespace=7), True),
        (reading(S + 500, boot_id=BOOT, time_namespace=7), True),  # the clocks are read one after the other
        (reading(S, boot_id=BOOT, time_namespace=8), False),
        (reading(S, boot_id=BOOT), False),
        (reading(S, boot_id=OTHER_BOOT, time_namespace=7), False),
        (reading(S, time_namespace=7), False),
        (reading(2 * S, boot_id=BOOT, time_namespace=7), False),  # restored from the same snapshot a second later
    ],
)
def test_the_same_clock_needs_boot_id_time_namespace_and_wall_clock(other, same):
    one = reading(S, boot_id=BOOT, time_namespace=7)

    assert clock.same_clock(one, other) is clock.same_clock(other, one) is same


def test_unknown_machines_are_not_the_same_clock():
    assert not clock.same_clock(reading(), reading())


def test_on_the_same_machine_times_stay_as_they_are():
    assert mapped(clock.same_machine(), [0, 5, 10**18]) == ([0, 5, 10**18], [0, 0, 0])


# Wall clocks


def test_without_stated_errors_the_wall_clocks_give_an_offset_with_an_unknown_error():
    node, reference = reading(5 * S), reading(2 * S, 7 * DAY, error_ns=MS)

    for one, other, offset in ((node, reference, 3 * S), (reference, node, -3 * S)):
        found = clock.by_wall_clock(one, other)
        assert (found.error_ns, found.how, found.exchanges) == (None, "wall clocks", 0)
        assert mapped(found, [DAY, 3 * DAY]) == ([DAY + offset, 3 * DAY + offset], [UNKNOWN_NS] * 2)


@given(
    error_ns=st.tuples(st.integers(1000, S), st.integers(1000, S)),
    share=st.tuples(st.floats(-1, 1), st.floats(-1, 1)),
    width_ns=st.integers(0, MS),
    gains_ppb=st.integers(-100_000, 100_000),
    offset_ns=st.integers(-DAY, DAY),
)
@example(error_ns=(1000, 2000), share=(1.0, -1.0), width_ns=MS, gains_ppb=0, offset_ns=0)
def test_stated_errors_of_wall_clocks_contain_the_truth(error_ns, share, width_ns, gains_ppb, offset_ns):
    machines = Simulated(offset_ns, gains_ppb)
    wrong = [int(error * part) for error, part in zip(error_ns, share, strict=True)]
    began, ended = 10**15, 10**15 + 1000 * S

    def readings(at):
        """Of the node and the reference, one second later; the time of day is the reference's monotonic time."""
        return (
            reading(at + width_ns // 2 - machines.node_ns(at) + wrong[0], machines.node_ns(at), error_ns[0], width_ns),
            reading(wrong[1], at + S, error_ns[1]),
        )

    moments = [began - 100 * S, began, began + 300 * S, ended, ended + 100 * S]
    for last in (None, readings(ended)):
        found = clock.by_wall_clock(*readings(began), last)
        distances, errors = off_by(found, machines, moments)
        assert all(distance <= error for distance, error in zip(distances, errors, strict=True))
        assert found.how == "wall clocks"


@pytest.mark.parametrize(
    ("synchronized", "estimated", "bound", "expected"),
    [(True, 100, 900, 900), (True, 900, 100, 900), (False, 100, 900, None), (True, 0, 500, None)],
)
def test_the_error_of_a_wall_clock_is_what_a_time_service_states(synchronized, estimated, bound, expected):
    stated = replace(reading(), synchronized=synchronized, estimated_error_ns=estimated, max_error_ns=bound)

    assert stated.wall_error_ns == expected


# Order


def test_events_within_their_errors_have_no_order():
    for a, a_error, b, b_error, expected in [
        (100, 10, 131, 20, "before"),
        (100, 10, 130, 20, "unknown"),
        (131, 10, 100, 20, "after"),
        (130, 10, 100, 20, "unknown"),
        (5, 0, 5, 0, "unknown"),
        (5, 0, 6, 0, "before"),
    ]:
        assert clock.order(a, a_error, b, b_error) == expected
        many = clock.orders(*(np.array([value] * 2, np.int64) for value in (a, a_error, b, b_error)))
        assert many.dtype == np.int8
        assert many.tolist() == [{"before": -1, "unknown": 0, "after": 1}[expected]] * 2


def test_an_unknown_error_gives_no_order():
    assert clock.order(0, None, 10**18, 5) == clock.order(0, 5, 10**18, None) == "unknown"
    one = np.array([10**18], np.int64)
    assert clock.orders(-one, np.array([UNKNOWN_NS]), one, np.array([UNKNOWN_NS])).tolist() == [0]


@given(seed=st.integers(0, 1 << 30), gap_ns=st.integers(-100_000, 100_000))
def test_a_stated_order_is_the_true_one(seed, gap_ns):
    one, other = Simulated(DAY, 30_000, seed=seed), Simulated(-DAY, -70_000, seed=seed + 1)
    lines = []
    for machines in (one, other):
        first = machines.compare()
        machines.now_ns += 100 * S
        lines.append(line(first, machines.compare()))
    at = 10**15 + 60 * S

    (a, b), (a_error, b_error) = zip(
        *(
            (found[0], error[0])
            for found, error in (mapped(lines[0], [one.node_ns(at)]), mapped(lines[1], [other.node_ns(at + gap_ns)]))
        ),
        strict=True,
    )

    assert clock.order(a, a_error, b, b_error) in ("unknown", "before" if gap_ns > 0 else "after")


# JSON


LINES = [
    line(ClockExchange(1000, 501_000, 1100, 256), ClockExchange(DAY, DAY + 777_000, DAY + 300, 256)),
    line(ClockExchange(1000, 501_000, 1100, 256), None),
    clock.by_wall_clock(reading(5), reading(7)),
    clock.same_machine(),
]


@pytest.mark.parametrize("value", [*LINES, clock.read(), reading()])
def test_json_and_back_is_the_same(value):
    text = json.dumps(value.to_json(), allow_nan=False)

    assert type(value).from_json(json.loads(text)) == value


@pytest.mark.parametrize("value", [None, 5, [], {}, "x", [{}], {"offset_ns": 5}])
def test_other_json_is_rejected(value):
    for kind in (ClockLine, Reading):
        with pytest.raises(ValueError, match="not an object with"):
            kind.from_json(value)


def test_json_with_other_keys_is_rejected():
    for value in (LINES[0], reading()):
        with pytest.raises(ValueError, match="not an object with"):
            type(value).from_json(value.to_json() | {"other": 1})


NOT_INTEGERS = (None, "5", 1.0, math.nan, math.inf, True, [], {}, LARGEST_NS * 4 + 1, 10**400, -LARGEST_NS - 1)


@pytest.mark.parametrize(
    ("value", "name", "wrong"),
    [
        *((LINES[0], name, NOT_INTEGERS) for name in ("offset_ns", "at_ns", "until_ns", "exchanges")),
        (LINES[0], "error_ns", (*NOT_INTEGERS[1:], -1)),
        (LINES[0], "until_ns", (LINES[0].at_ns - 1,)),
        (LINES[0], "exchanges", (-1,)),
        *(
            (LINES[0], name, (None, "0", math.nan, math.inf, 0.5, -0.5, 10**400, True, []))
            for name in ("drift", "drift_error")
        ),
        (LINES[0], "drift_error", (-1e-9,)),
        (LINES[0], "how", (None, "", "magic", 5, [], {})),
        *((reading(), name, (*NOT_INTEGERS, -1)) for name in ("monotonic_ns", "realtime_ns", "tai_ns", "boottime_ns")),
        *((reading(), name, (*NOT_INTEGERS, -1)) for name in ("width_ns",)),
        *((reading(), name, (*NOT_INTEGERS, -1)) for name in ("estimated_error_ns", "max_error_ns")),
        (reading(), "time_namespace", (None, "7", 7.0, -1, 1 << 64)),
        (reading(), "synchronized", (None, 0, 1, "true", [])),
        (reading(), "boot_id", (None, 5, "x", BOOT + "\n", BOOT.upper(), BOOT * 2, [])),
    ],
)
def test_hostile_values_are_rejected(value, name, wrong):
    for each in wrong:
        with pytest.raises(ValueError, match=name.split("_")[0]):
            type(value).from_json(value.to_json() | {name: each})


# Processes with other clocks

ANSWERS = """
import json, sys
from accel_magic.cluster.clock import answer, read
gains_ppb, offset_ns = map(int, sys.argv[1:])
for line in sys.stdin:
    now = answer()
    told = read().to_json() if line == "read\\n" else now + now * gains_ppb // 10**9 + offset_ns
    print(json.dumps(told), flush=True)
"""


class Worker:
    """A process that answers exchanges, perhaps in a time namespace of its own."""

    def __init__(self, prefix=(), gains_ppb=0, offset_ns=0):
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", ANSWERS, str(gains_ppb), str(offset_ns)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(accel_magic.__file__).parents[1])},
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def asked(self, question):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def ask(self):
        return self.asked("now")

    def read(self):
        return Reading.from_json(self.asked("read"))


@pytest.fixture(scope="module")
def namespace():
    """Returns a command prefix for a time namespace whose CLOCK_MONOTONIC is ahead by so many seconds."""
    unshare = ["unshare", *(["--user", "--map-root-user"] if os.geteuid() else []), "--time", "--fork", "--kill-child"]
    if not shutil.which("unshare"):
        pytest.skip("no unshare")
    tried = subprocess.run([*unshare, "--monotonic", "1", "true"], capture_output=True, check=False, text=True)
    if tried.returncode:
        pytest.skip(f"no time namespaces: {tried.stderr.strip()}")
    return lambda seconds: [*unshare, "--monotonic", str(seconds)]


@pytest.mark.parametrize("ahead_s", [1, 3 * 86_400, 10**9])
def test_a_process_in_a_time_namespace_is_mapped_within_the_stated_error(namespace, ahead_s):
    with Worker(namespace(ahead_s)) as node:
        began = time.monotonic_ns()
        first = exchange(node.ask)
        last = exchange(node.ask)
        ended = time.monotonic_ns()

    # The kernel adds exactly the offset, so the truth is known to the nanosecond.
    moments = [began, (began + ended) // 2, ended]
    for found in (line(first, last), line(first, None)):
        times, errors = mapped(found, [at + ahead_s * S for at in moments])
        assert all(abs(one - at) <= error for one, at, error in zip(times, moments, errors, strict=True))
    found = line(first, last)
    assert found.exchanges == 512
    assert found.error_ns <= -(-max(first.round_trip_ns, last.round_trip_ns) // 2) + 3
    assert abs(found.drift) <= found.drift_error


def test_a_process_in_a_time_namespace_has_another_clock(namespace):
    with Worker(namespace(500)) as node, Worker() as beside:
        there, here = node.read(), clock.read()

        assert there.boot_id == here.boot_id
        assert not clock.same_clock(there, here)
        assert clock.same_clock(beside.read(), here)


def test_the_wall_clock_of_a_process_in_a_time_namespace_is_the_same(namespace):
    with Worker(namespace(500)) as node:
        there, here = node.read(), clock.read()

    found = clock.by_wall_clock(there, here)

    apart = mapped(found, [there.monotonic_ns])[0][0] - (there.monotonic_ns - 500 * S)
    assert abs(apart) <= (there.width_ns + here.width_ns) // 2 + 2


@pytest.mark.parametrize("gains_ppm", [-100, 0, 30, 100])
def test_the_drift_of_a_process_is_measured_within_its_error(gains_ppm):
    machines = Simulated(3 * DAY, gains_ppm * 1000)  # the arithmetic of the process
    with Worker(gains_ppb=machines.gains_ppb, offset_ns=machines.offset_ns) as node:
        first = exchange(node.ask)
        began = time.monotonic_ns()
        time.sleep(1)  # 100 us of drift
        ended = time.monotonic_ns()
        last = exchange(node.ask)

    found = line(first, last)

    assert abs(found.drift - machines.drift) <= found.drift_error <= DRIFT + abs(found.drift)
    distances, errors = off_by(found, machines, [began, (began + ended) // 2, ended, ended + 10 * S])
    assert all(distance <= error for distance, error in zip(distances, errors, strict=True))
