"""Numbers that sessions share: sums over those of the same user, and rows that are used again."""

import os

from accel_magic.broker.usage_table import Claim, UsageTable
from accel_magic.probes.plan import ProbePoint
from tests.support.plans import plan_of

SAMPLES = ProbePoint(0, "probe", "profile", "cpu-clock", "", rate_hz=99)
TASK = ProbePoint(1, "itt:*", "itt", "", "*")


def test_a_plan_takes_its_rates_its_places_in_the_kernel_and_buffers_only_if_it_records():
    assert Claim.of(plan_of((SAMPLES, SAMPLES, TASK), buffer_mib=8)) == Claim(198, 2, 8)
    assert Claim.of(plan_of((SAMPLES,), mode="count", buffer_mib=8)) == Claim(99, 1, 0)


def test_the_numbers_of_a_user_are_those_of_all_of_its_sessions_and_of_no_other():
    table = UsageTable(3)
    first, second, other = table.take(61001), table.take(61001), table.take(61002)
    first.publish(Claim(100, 2, 8))
    second.publish(Claim(10, 1, 4))
    other.publish(Claim(1000, 1000, 1000))
    assert first.claimed() == second.claimed() == Claim(110, 3, 12)
    second.publish(Claim())
    assert first.claimed() == Claim(100, 2, 8)
    assert other.claimed() == Claim(1000, 1000, 1000)


def test_exactly_one_session_of_a_user_has_the_largest_number():
    table = UsageTable(4)
    shares = [table.take(61001), table.take(61002), table.take(61001), table.take(61001)]
    for share, hits in zip(shares, [5.0, 1000.0, 9.0, 9.0], strict=True):
        share.publish_rates({"hits_per_s": hits})
    assert [share.is_largest("hits_per_s") for share in shares] == [False, True, True, False]
    assert shares[0].total("hits_per_s") == 23


def test_a_row_that_was_given_back_begins_with_zeros_and_counts_for_its_new_user():
    table = UsageTable(1)
    old = table.take(61001)
    old.publish(Claim(1, 2, 3))
    old.publish_rates({"hits_per_s": 4.0})
    old.give_back()
    new = table.take(61002)
    assert (new.claimed(), new.total("hits_per_s")) == (Claim(), 0)


def test_processes_that_were_forked_share_the_numbers():
    table = UsageTable(2)
    mine, theirs = table.take(0), table.take(0)
    child = os.fork()
    if not child:
        theirs.publish(Claim(7, 8, 9))
        os._exit(0)
    os.waitpid(child, 0)
    assert mine.claimed() == Claim(7, 8, 9)
