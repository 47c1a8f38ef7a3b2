"""Collectives from the events of PyTorch's functions, beside loops over each process's events."""

import numpy as np
import pytest

from accel_magic.subsystems.steps import torch
from accel_magic.subsystems.steps.collectives import ONLY_GROUP, collectives_of
from accel_magic.subsystems.steps.coverage import Coverage
from accel_magic.subsystems.steps.steps import processes, steps_of, waited, with_waiting

pytestmark = pytest.mark.component

ADDRESSES = (0x7F00_0000_1000, 0x7F00_0000_1040, 0x5000)


class Rank:
    """Simulates the calls of one process; keeps what it did as the truth."""

    def __init__(self, number, random):
        self.node, self.pid, self.random = f"rank {number}", 100 + number, random
        self.time, self.events, self.truth = int(random.integers(1000)), [], []
        self.groups, self.numbers, self.own_numbers = {}, {}, {}

    def happens(self, function, **more):
        self.time += int(self.random.integers(1, 50))
        self.events.append({"function": function, "node": self.node, "pid": self.pid, "time_ns": self.time, **more})
        return self.time

    def make_group(self, name, address):
        self.happens(torch.GROUP_MADE, group=address)
        self.happens(torch.GROUP_NAMED, group_name=name)
        self.groups[name], self.numbers[name], self.own_numbers[name] = address, 0, 0

    def call(self, group, operation, address, *, wait, fails=False, ends=True):
        self.own_numbers[group] += 1
        start = self.happens(torch.MADE, work=address, operation=operation, sequence=self.own_numbers[group])
        self.happens(torch.ENQUEUED, work=address, group=self.groups[group])
        waits = self.happens(torch.WAIT, work=address) if wait == "work" else None
        waits = self.happens(torch.WAIT_FOR_ALL) if wait == "all" else waits
        end = None
        if ends:
            end = self.happens(torch.FAILED if fails else torch.FINISHED, work=address, tid=self.pid + 1)
        if wait == "late":
            waits = self.happens(torch.WAIT, work=address)
        name = torch.OPERATIONS[operation]
        self.truth.append((self.node, group, name, self.numbers[group], start, waits, end, fails and ends))
        self.numbers[group] += 1


def job(seed):
    random = np.random.default_rng(seed)
    ranks = [Rank(number, random) for number in range(4)]
    for rank in ranks:
        rank.make_group("0", 0x9000)
        rank.make_group("1" if rank.pid < 102 else "2", 0x9100)
    for _ in range(30):
        group, operation = random.choice(["0", "own"]), int(random.integers(len(torch.OPERATIONS)))
        for rank in ranks:
            name = "0" if group == "0" else list(rank.groups)[1]
            wait = str(random.choice(["work", "late", "none"]))
            rank.call(name, operation, int(random.choice(ADDRESSES)), wait=wait, fails=random.random() < 0.1)
    for rank in ranks:
        rank.call("0", 1, 0x6000, wait="all")
    ranks[3].call("0", 1, 0x7000, wait="work", ends=False)  # killed in it
    return ranks


def rows_of(found):
    columns = [
        found[name] for name in ("node", "group", "operation", "number", "time_ns", "wait_ns", "end_ns", "failed")
    ]
    return sorted(zip(*(column.astype(object).where(column.notna(), None) for column in columns), strict=True))


@pytest.mark.parametrize("seed", range(10))
def test_calls_are_followed_to_their_end_in_their_groups(frame, seed):
    ranks = job(seed)
    found = collectives_of(frame([event for rank in ranks for event in rank.events]))
    # Waiting for all gradients is known of collectives that nothing else waits for.
    waits = {rank.node: rank.truth[30][5] for rank in ranks}
    truth = [
        (*call[:5], waits[call[0]] if call[5] is None else call[5], *call[6:]) for rank in ranks for call in rank.truth
    ]

    assert rows_of(found) == sorted(truth)
    assert found["time_ns"].is_monotonic_increasing


def test_without_waits_each_call_waits_to_its_end(frame):
    ranks = job(0)
    events = [
        event for rank in ranks for event in rank.events if event["function"] not in (torch.WAIT, torch.WAIT_FOR_ALL)
    ]

    found = collectives_of(frame(events), waits=False)

    assert found["wait_ns"].tolist() == found["time_ns"].tolist()


def test_groups_made_before_the_trace_are_known_only_where_each_process_used_one(frame):
    one, two = Rank(0, np.random.default_rng(0)), Rank(1, np.random.default_rng(1))
    for rank in (one, two):
        rank.make_group("0", 0x9000 + rank.pid)
        rank.own_numbers["0"] = 40
        rank.call("0", 1, 0x5000, wait="work")
        rank.events = rank.events[2:]
    found = collectives_of(frame(one.events + two.events))
    assert found[["group", "number"]].values.tolist() == [[ONLY_GROUP, 41]] * 2

    two.make_group("other", 0x1234)
    two.call("other", 1, 0x5000, wait="work")
    two.events = [event for event in two.events if event["function"] not in (torch.GROUP_MADE, torch.GROUP_NAMED)]
    found = collectives_of(frame(one.events + two.events))
    assert found["group"].tolist() == [""] * 3
    assert found["number"].isna().all()


def test_if_a_rank_lost_events_pytorchs_numbers_are_used(frame):
    ranks = job(0)
    events = [event for rank in ranks for event in rank.events]

    found = collectives_of(frame(events), lossy={"rank 1"})

    assert (found["number"] == found.groupby(["node", "group"], observed=True).cumcount() + 1).all()


def test_a_group_made_again_is_another_group(frame):
    rank = Rank(0, np.random.default_rng(0))
    for _ in range(2):
        rank.make_group("0", 0x9000)
        rank.call("0", 1, 0x5000, wait="work")

    found = collectives_of(frame(rank.events))

    assert found["number"].tolist() == [0, 0]
    assert found["group"].nunique() == 2


def test_the_end_of_a_call_before_the_trace_is_not_that_of_another_object(frame):
    rank = Rank(0, np.random.default_rng(0))
    rank.make_group("0", 0x9000)
    rank.call("0", 1, 0x5000, wait="work", ends=False)
    for address in (0x4000, 0x6000):
        rank.happens(torch.FINISHED, work=address)

    assert collectives_of(frame(rank.events))["end_ns"].isna().all()


def test_without_collectives_the_table_is_empty(frame):
    assert collectives_of(frame([{"function": torch.WAIT_FOR_ALL, "node": "a", "time_ns": 1}])).empty


def test_a_steps_own_time_is_without_the_waits_for_collectives(frame):
    ranks = job(3)
    events = [event for rank in ranks for event in rank.events]
    for rank in ranks:
        times = range(0, rank.time + 400, 400)
        events += [
            {"function": "accel_magic:step", "node": rank.node, "pid": rank.pid, "time_ns": time, "step": at}
            for at, time in enumerate(times)
        ]
    events = frame(events)
    found = collectives_of(events)

    own = with_waiting(steps_of(events), found)

    for row in own.dropna(subset="duration_ns").itertuples():
        calls = found[found["node"] == row.node].dropna(subset=["wait_ns", "end_ns"])
        inside = set(range(row.time_ns, row.time_ns + row.duration_ns))
        waiting = set()
        for wait, end in zip(calls["wait_ns"], calls["end_ns"], strict=True):
            waiting |= inside & set(range(wait, end))
        assert (row.waiting_ns, row.own_ns) == (len(waiting), len(inside - waiting))
    assert own["waiting_ns"].sum() > 0


def test_waits_that_begin_after_the_end_take_no_time(frame):
    rank = Rank(0, np.random.default_rng(0))
    rank.make_group("0", 0x9000)
    rank.call("0", 1, 0x5000, wait="late")
    found = collectives_of(frame(rank.events))

    start, end = waited(found)

    assert start.tolist() == end.tolist()
    assert Coverage(processes(found), start, end).within(np.array([0]), np.array([0]), np.array([10**6])).tolist() == [
        0
    ]
