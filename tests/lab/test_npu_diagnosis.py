"""Diagnosis of the real driver: each device fault is found with its cause, and clean runs have no finding."""

from __future__ import annotations

import shlex

import pytest

from accel_magic.lab.npu import Load
from accel_magic.subsystems.npu.rules import RULES

CAUSES = {
    "slow": "jobs-slow",
    "hang": "job-hung",
    "lose": "completion-lost",
    "duplicate": "completion-duplicated",
    "no-boot": "boot-failed",
    "slow-boot": "boot-slow",
    "lose-ipc": "request-unanswered",
    "duplicate-ipc": "reply-duplicated",
}
# Side effects of faults: the driver resets an unresponsive NPU, and rejects jobs without a queue.
CONSEQUENCES = {
    "hang": {"npu-reset"},
    "lose": {"npu-reset"},
    "lose-ipc": {"npu-reset", "jobs-failed"},
}
CLEAN = (
    {"jobs": 20},
    {"jobs": 40, "size": 4096},
    {"jobs": 8, "size": 1 << 20},
    {"jobs": 12, "buffers": 4},
    {"jobs": 24, "processes": 8},
    {"jobs": 24, "processes": 2, "threads": 3},
    {"jobs": 24, "threads": 8},
    {"jobs": 12, "rate": 40},
    {"jobs": 20, "processes": 4, "rate": 100},
    {"jobs": 16, "submit": "submit", "priority": "realtime"},
)

POWER = """
device=$(echo /sys/bus/pci/drivers/intel_vpu/0000:*)
echo {control} > $device/power/control
for _ in $(seq 6000); do
    [ "$(cat $device/power/runtime_status)" = {status} ] && exit 0
    sleep 0.02
done
echo "the NPU does not get {status}" >&2
exit 1
"""
AWAKE, ASLEEP = POWER.format(control="on", status="active"), POWER.format(control="auto", status="suspended")
REQUEST = """
import sys
from accel_magic.lab.npu import request_fault
request_fault(sys.argv[1], int(sys.argv[2]))
"""


@pytest.fixture
def awake(guest):
    """The guest with its NPU kept awake, so that it does not boot during a trace."""
    guest.run("sh", "-c", AWAKE)
    yield guest
    guest.run("sh", "-c", ASLEEP)


@pytest.fixture
def asleep(guest):
    """The guest with its NPU suspended when the trace begins."""
    guest.run("sh", "-c", ASLEEP)
    return guest


@pytest.fixture
def request_fault(guest):
    """A function that makes the NPU misbehave until the test ends: `request_fault("lose-ipc", 3)`."""
    yield lambda fault, argument: guest.python(REQUEST, fault, argument)
    guest.python(REQUEST, "none", 0)


def traced(guest, command):
    """Findings about a load, and the load's report."""
    result = guest.trace("npu", command=command)
    return result.diagnose(), Load.from_json(result.value.stdout)


def is_of_suspension(finding):
    """Whether it is the reply for which the driver waits only 5 ms when it suspends the NPU, late on a busy machine."""
    if finding.id != "request-unanswered":
        return False
    found = finding.evidence[0].values
    return found["waited_ns"] < 50e6 * found["unanswered"]


def evidence_of(findings, fault):
    """The evidence for the fault's cause, which must be the first finding and the only cause."""
    # The kernel misses hits on a busy machine.
    worse = [
        finding
        for finding in findings
        if finding.severity != "note" and finding.id != "hits-missed" and not is_of_suspension(finding)
    ]
    assert worse, findings
    assert worse[0].id == CAUSES[fault], findings
    assert {finding.id for finding in worse[1:]} <= CONSEQUENCES.get(fault, set()), findings
    return worse[0].evidence


@pytest.mark.parametrize(
    "pair", [0, *(pytest.param(pair, marks=pytest.mark.thorough) for pair in range(1, len(CLEAN) // 2))]
)
def test_clean_runs_have_no_finding(awake, load, pair):
    """Two runs per trace, because attaching takes longer than both."""
    shapes = CLEAN[2 * pair : 2 * pair + 2]

    result = awake.trace("npu", command=["sh", "-c", " && ".join(shlex.join(load(**shape)) for shape in shapes)])

    done = [Load.from_json(line) for line in result.value.stdout.splitlines()]
    assert [each.ok for each in done] == [shape["jobs"] for shape in shapes]
    findings = result.diagnose()
    # On a busy machine the calls for a buffer may take longer than an emulated job.
    assert set(findings.ids) <= {"buffers-churned"}, (shapes, findings)
    assert len(findings.checked) == len(RULES)


def test_a_run_that_wakes_the_npu_has_only_a_note_about_it(asleep, load):
    findings, done = traced(asleep, load(jobs=20))

    assert done.ok == 20
    found = {finding.id: finding.evidence for finding in findings if not is_of_suspension(finding)}
    assert set(found) <= {"boot-in-region", "wake-per-job", "buffers-churned"}, found


@pytest.mark.thorough  # test_npu_analysis.py traces the same fault, and unit tests cover the rule
def test_slow_jobs_are_found(awake, load):
    findings, done = traced(awake, load(jobs=12, fault="slow=200000", every=6))

    evidence = evidence_of(findings, "slow")
    assert (evidence["slow"], evidence["jobs"]) == (done.faulty, done.jobs) == (2, 12)
    assert evidence["longest_ns"] >= 200e6


@pytest.mark.thorough  # test_npu_analysis.py traces the same fault, and unit tests cover the rule
def test_a_hung_job_is_found(awake, load):
    findings, done = traced(awake, load(jobs=3, processes=3, fault="hang", at=2, timeout=30))

    evidence = evidence_of(findings, "hang")
    assert (evidence["hung"], done.faulty) == (1, 1)
    assert "npu-reset" in findings.ids


@pytest.mark.thorough  # test_npu_analysis.py traces the same fault, and unit tests cover the rule
def test_a_lost_completion_is_found(awake, load):
    findings, done = traced(awake, load(jobs=3, processes=3, fault="lose", at=2, timeout=10))

    assert (evidence_of(findings, "lose")["lost"], done.faulty) == (1, 1)


@pytest.mark.thorough  # unit tests cover the rule, test_faults.py the fault
def test_a_duplicated_completion_is_found(awake, load):
    findings, done = traced(awake, load(jobs=10, fault="duplicate", every=5))

    assert evidence_of(findings, "duplicate") == {"duplicated": done.faulty, "jobs": 10}
    assert done.faulty == 2


def test_firmware_that_does_not_boot_is_found(asleep, load, request_fault):
    request_fault("no-boot", 1)

    findings, done = traced(asleep, load(jobs=3))

    assert done.ok == 3
    assert evidence_of(findings, "no-boot")["failed"] == 1


@pytest.mark.thorough  # unit tests cover the rule, test_faults.py the fault
def test_firmware_that_boots_slowly_is_found(asleep, load, request_fault):
    request_fault("slow-boot", 300_000)

    findings, done = traced(asleep, load(jobs=3))

    assert done.ok == 3
    assert evidence_of(findings, "slow-boot")["longest_ns"] >= 300e6


@pytest.mark.thorough  # unit tests cover the rule, test_faults.py the fault
def test_a_lost_reply_is_found(awake, load, request_fault):
    # On 6.12 the driver crashes if the reply to a doorbell's registration is lost: that is the second one.
    request_fault("lose-ipc", 3 if awake.kernel == "6.12" else 2)

    findings, _ = traced(awake, load(jobs=3))

    assert evidence_of(findings, "lose-ipc")["unanswered"] >= 1


@pytest.mark.thorough  # unit tests cover the rule, test_faults.py the fault
def test_duplicated_replies_are_found(awake, load, request_fault):
    request_fault("duplicate-ipc", 1)

    findings, done = traced(awake, load(jobs=5))

    assert done.ok == 5
    evidence = evidence_of(findings, "duplicate-ipc")
    assert 1 <= evidence["unclaimed"] <= evidence["requests"]
