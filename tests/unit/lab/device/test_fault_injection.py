"""Parsing and combining faults."""

from __future__ import annotations

import pytest

from accel_magic.errors import ProbeError
from accel_magic.lab.device.fault_injection import Faults, JobFault
from tests.support.errors import raises


def test_faults_of_jobs_and_of_the_device_may_be_combined():
    faults = Faults.parse(["hang-job=3", "slow-job=5:200000", "no-boot=1", "lose-ipc=4"])
    assert [faults.of_job(number) for number in (1, 3, 5)] == [JobFault(), JobFault(2, 0), JobFault(1, 200000)]
    assert [faults.boot_fails() for _ in range(3)] == [True, False, False]
    assert [faults.copies_of_reply() for _ in range(5)] == [1, 1, 1, 0, 1]


def test_losing_a_reply_takes_precedence_over_duplicating_it():
    faults = Faults.parse(["lose-ipc=4", "duplicate-ipc=2"])
    assert [faults.copies_of_reply() for _ in range(8)] == [1, 2, 1, 0, 1, 2, 1, 0]


def test_a_request_through_the_capability_replaces_those_of_the_command_line():
    faults = Faults.parse(["no-boot=0", "lose-ipc=1"])
    faults.request(2, 700)
    assert (faults.boot_fails(), faults.boot_delay_us(), faults.copies_of_reply()) == (False, 700, 1)
    faults.request(0, 0)
    assert faults.boot_delay_us() == 0


@pytest.mark.parametrize(
    "text",
    ["", "hang-job", "hang-job=", "hang-job=x", "hang-job=-1", "hang-job=1:2", "slow-job=3", "slow-job=3:", "crash=1",
     "no-boot=1:1", "lose-ipc=4.5", "hang-job=" + "9" * 40],
)  # fmt: skip
def test_the_error_for_an_invalid_fault_lists_the_valid_ones(text):
    with raises("npu.unknown-fault", ProbeError) as caught:
        Faults.parse([text])
    assert "slow-job=N:MICROSECONDS" in caught.value.why
    assert "--fault hang-job=3" in caught.value.fix
