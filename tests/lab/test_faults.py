"""Injected device faults show in the trace of the driver, and the driver works again afterwards."""

from __future__ import annotations

import sys

import pytest

from accel_magic.lab.npu import Load

TIMED_OUT = -110
BOOT_TIMEOUT_S = 1.0  # the driver's timeout for the firmware's first message
REPLY_TIMEOUT_S = 0.5  # and for the reply to a request
RETURN = 0xFFFFFFFF  # mask of an int in the return register


@pytest.fixture
def healthy(guest, load):
    """The guest; its NPU is suspended and without a fault when the test starts, and working afterwards."""
    guest.python(WAIT_FOR_SLEEP)
    yield guest
    guest.python(BIND)
    result = guest.trace("intel_vpu:ivpu_job_done_callback", command=load(jobs=3))
    assert Load.from_json(result.value.stdout).ok == 3
    assert result.hits == 3


WAIT_FOR_SLEEP = """
import time
from pathlib import Path
device, = Path("/sys/bus/pci/drivers/intel_vpu").glob("0000:*")
for _ in range(6000):
    if (device / "power/runtime_status").read_text() == "suspended\\n":
        break
    time.sleep(0.02)
else:
    raise SystemExit("the NPU does not fall asleep")
"""

POWER = """
from pathlib import Path
device, = Path("/sys/bus/pci/drivers/intel_vpu").glob("0000:*")
(device / "power/control").write_text("{}")
"""

LOAD_WITH_FAULT = """
import sys
from accel_magic.lab import npu
npu.request_fault(sys.argv[1], int(sys.argv[2]))
print(npu.load(jobs=int(sys.argv[3]), timeout=60).to_json())
"""
LOAD_WITH_FAULT += WAIT_FOR_SLEEP

BIND_WITHOUT_BOOT = """
import os
from pathlib import Path
from accel_magic.lab import npu
driver = Path("/sys/bus/pci/drivers/intel_vpu")
device, = driver.glob("0000:*")
name = device.name
(driver / "unbind").write_text(name)
npu.request_fault("no-boot", 0)
bind = os.open(driver / "bind", os.O_WRONLY)  # a file object would repeat a failed write
try:
    os.write(bind, name.encode())
except OSError as error:
    print(error.strerror)
print(Path("/dev/accel/accel0").exists(), (driver / name).exists())
"""

BIND = """
from pathlib import Path
from accel_magic.lab import npu
npu.clear_faults()
for device in Path("/sys/bus/pci/devices").iterdir():
    if (device / "device").read_text() == "0x7d1d\\n" and not (device / "driver").exists():
        Path("/sys/bus/pci/drivers/intel_vpu/bind").write_text(device.name)
"""


def with_fault(name, argument, jobs=3):
    return [sys.executable, "-c", LOAD_WITH_FAULT, name, str(argument), str(jobs)]


def boots_beyond_wakes(hits):
    """Boots beyond those for waking up, which depend on timing: they are the driver's recovery."""
    return hits["ivpu_boot"] - hits["ivpu_pm_runtime_resume_cb"]


def returned(events, function):
    """Return values of a function that returns int, in order."""
    values = events[(events["function"] == function) & events["retval"].notna()]["retval"]
    return [(int(value) & RETURN) - ((int(value) & 1 << 31) << 1) for value in values]


@pytest.mark.thorough  # test_npu_diagnosis.py traces the same fault
def test_the_driver_times_out_a_hung_job_and_recovers(healthy, load, hits_of):
    result = healthy.trace("intel_vpu:ivpu_*", command=load(jobs=3, fault="hang", at=2, timeout=30))

    outcome, hits = Load.from_json(result.value.stdout), hits_of(result)
    assert outcome.statuses[256] == 1  # aborted
    assert outcome.timed_out == 0
    assert hits["ivpu_job_done_callback"] == outcome.ok
    assert hits["ivpu_job_timeout_work"] >= 1
    assert hits["ivpu_dev_coredump"] >= 1
    if healthy.kernel != "7.2":  # the whole NPU is reset, and the next job continues
        assert hits["ivpu_pm_trigger_recovery"] == hits["ivpu_pm_recovery_work"] == 1
        assert boots_beyond_wakes(hits) == 1
        assert outcome.ok == 2
    else:  # the engine is reset, and only the context of the hung job is affected
        assert hits["ivpu_jsm_reset_engine"] == hits["ivpu_context_abort_work_fn"] == 1
        assert boots_beyond_wakes(hits) == 0
        assert outcome.ok == 1


@pytest.mark.thorough  # test_npu_diagnosis.py traces the same fault
def test_a_job_with_a_lost_completion_is_abandoned(healthy, load, hits_of):
    result = healthy.trace("intel_vpu:ivpu_*", command=load(jobs=3, fault="lose", at=2, timeout=10))

    outcome, hits = Load.from_json(result.value.stdout), hits_of(result)
    assert outcome.ok == 2
    assert hits["ivpu_job_done_callback"] == 2
    assert hits["ivpu_job_timeout_work"] >= 1
    if healthy.kernel == "6.12":
        assert hits["ivpu_pm_trigger_recovery"] == 1
        assert outcome.statuses == {0: 2, 256: 1}
    else:  # the heartbeat continues: the driver waits longer than the workload
        assert hits["ivpu_jsm_reset_engine"] == 0
        assert (outcome.statuses, outcome.timed_out) == ({0: 2}, 1)


def test_a_duplicated_completion_is_received_twice_and_harmless(healthy, load, hits_of):
    result = healthy.trace("intel_vpu:ivpu_*", command=load(jobs=10, fault="duplicate", every=5))

    assert Load.from_json(result.value.stdout).ok == 10
    hits = hits_of(result)
    assert hits["ivpu_job_done_callback"] == 12
    assert hits["ivpu_job_timeout_work"] == 0
    assert hits["ivpu_stop_job_timeout_detection"] == 10


@pytest.mark.thorough  # test_npu_diagnosis.py traces the same fault
def test_firmware_that_fails_to_boot_once_is_booted_again(healthy, hits_of):
    result = healthy.trace(
        "intel_vpu:ivpu_*", "latency:intel_vpu:ivpu_wait_for_ready", command=with_fault("no-boot", 1)
    )

    assert Load.from_json(result.value.stdout).ok == 3
    hits = hits_of(result)
    assert boots_beyond_wakes(hits) == 1
    assert hits["ivpu_hw_ip_diagnose_failure"] == 1
    assert hits["ivpu_dev_coredump"] >= 1  # on a busy machine a job may time out as well
    waits = result.events[result.events["duration_ns"].notna()]
    first, *others = returned(result.events, "ivpu_wait_for_ready")
    assert first == TIMED_OUT
    assert set(others) == {0}
    assert waits["duration_ns"].iloc[0] >= BOOT_TIMEOUT_S * 0.95e9


@pytest.mark.thorough  # binds the driver twice
def test_firmware_that_never_boots_leaves_no_device_when_the_driver_binds(healthy, hits_of):
    result = healthy.trace(
        "intel_vpu:ivpu_*", "kretprobe:intel_vpu:ivpu_boot", command=[sys.executable, "-c", BIND_WITHOUT_BOOT]
    )

    assert result.value.status == 0, result.value.stderr
    assert result.value.stdout.split()[-2:] == ["False", "False"]
    hits = result.counts["hits"].loc["intel_vpu:ivpu_*"]
    assert hits["ivpu_probe"] == hits["ivpu_remove"] == 1
    assert boots_beyond_wakes(hits) == 1  # it wakes up for its removal
    assert hits["ivpu_hw_ip_diagnose_failure"] == 1
    *woken, bound = returned(result.events, "ivpu_boot")
    assert bound == TIMED_OUT
    assert set(woken) <= {0}

    again = healthy.trace("intel_vpu:ivpu_*", command=[sys.executable, "-c", BIND])
    assert again.value.status == 0, again.value.stderr
    assert hits_of(again)["ivpu_probe"] == boots_beyond_wakes(hits_of(again)) == 1


@pytest.mark.thorough  # test_npu_diagnosis.py traces the same fault
def test_a_slow_boot_shows_as_waiting_time(healthy):
    result = healthy.trace("latency:intel_vpu:ivpu_wait_for_ready", command=with_fault("slow-boot", 400_000))

    assert Load.from_json(result.value.stdout).ok == 3
    waits = result.events
    assert set(returned(waits, "ivpu_wait_for_ready")) == {0}
    assert waits["duration_ns"].between(0.38e9, BOOT_TIMEOUT_S * 1e9).all()


def test_a_lost_reply_of_the_firmware_shows_as_a_request_timeout(healthy, hits_of):
    # On 6.12 the driver crashes if the reply to a doorbell's registration is lost. The heartbeat is queried before it
    # and its unregistration follows: the third reply, unless the NPU suspends in between.
    every = 3 if healthy.kernel == "6.12" else 2
    script = POWER.format("on") + LOAD_WITH_FAULT.replace(WAIT_FOR_SLEEP, POWER.format("auto") + WAIT_FOR_SLEEP)

    result = healthy.trace(
        "latency:intel_vpu:ivpu_ipc_send_receive_internal",
        command=[sys.executable, "-c", script, "lose-ipc", str(every), "3"],
    )

    results = returned(result.events, "ivpu_ipc_send_receive_internal")
    assert set(results) == {0, TIMED_OUT}
    events = result.events
    timed_out = events[(events["retval"].astype("int64") & RETURN) == (TIMED_OUT & RETURN)]["duration_ns"]
    answered = events[events["retval"] == 0]["duration_ns"]
    assert timed_out.max() >= min(REPLY_TIMEOUT_S * 0.95e9, answered.max())


@pytest.mark.thorough  # test_npu_diagnosis.py traces the same fault
def test_duplicated_replies_are_received_twice_and_harmless(healthy, hits_of):
    result = healthy.trace("intel_vpu:ivpu_*", command=with_fault("duplicate-ipc", 1, jobs=5))

    assert Load.from_json(result.value.stdout).ok == 5
    hits = hits_of(result)
    assert hits["ivpu_job_done_callback"] == 5
    # Every reply arrives twice; unsolicited messages, for jobs and the boot, arrive once.
    messages = 2 * hits["ivpu_ipc_send_receive_internal"] + 5 + hits["ivpu_boot"]
    # The NPU may already be suspended when the replies to its last request arrive.
    not_seen = result.recording.missed + 2 * hits["ivpu_pm_runtime_suspend_cb"]
    assert messages - not_seen <= hits["ivpu_ipc_rx_msg_del"] <= messages
