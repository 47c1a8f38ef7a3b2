"""The doctor in the lab, which has an NPU driver."""

import json

import pytest

pytestmark = pytest.mark.lab

CHECKS = """
import dataclasses, json
from pathlib import Path
from accel_magic.api.doctor import devices
print(json.dumps({check.name: dataclasses.asdict(check) for check in devices.checks(Path("/"))}))
"""


def test_the_doctor_reports_version_device_and_firmware_of_the_real_driver(guest):
    version = guest.run("cat", "/sys/module/intel_vpu/version").strip()
    # The driver of 6.12 has only a file with the firmware's name.
    firmware = guest.run("sh", "-c", "cat /sys/kernel/debug/accel/*/fw_version || echo unknown").strip()
    assert (firmware == "unknown") == (guest.kernel == "6.12")

    driver = json.loads(guest.python(CHECKS))["driver intel_vpu"]

    assert driver["status"] == "ok"
    assert f"loaded, version {version}, srcversion " in driver["detail"]
    assert " 8086:7d1d Meteor Lake NPU, emulated, " in driver["detail"]
    assert f"firmware intel/vpu/vpu_37xx_v1.bin, version {firmware}" in driver["detail"]
    assert firmware
