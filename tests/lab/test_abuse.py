"""Whatever an ordinary user of the guest makes the real driver send, the emulated NPU on this machine keeps working."""

import json
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from accel_magic.lab import level_zero, npu
from tests.lab.conftest import GUEST, TEST_S
from tests.support import thorough

SECONDS = thorough.choose(2, 240)
USER = 1000
MOST_MIB = 200


@pytest.fixture(scope="module")
def abuse(tmp_path_factory):
    """The program of the user."""
    program = tmp_path_factory.mktemp("abuse") / "abuse_npu"
    headers = [f"-I{Path(package.__file__).parent}" for package in (npu, level_zero)]
    words = ["gcc", "-O1", "-Wall", "-Werror", "-static", *headers, "-o", program, GUEST / "abuse_npu.c"]
    subprocess.run(words, check=True)
    return program


def device_of(lab):
    """The process of the emulated NPU."""
    children = psutil.Process(lab._guest.keeper.pid).children(recursive=True)
    (found,) = [one for one in children if "accel_magic.lab.device" in one.cmdline()]
    return found


def test_calls_of_any_kind_neither_end_the_device_nor_make_it_grow(guest, abuse, load):
    lab = guest.lab
    lab.run(["sh", "-c", "chmod 0666 /dev/accel/*"])
    lab.run(["chmod", "a+x", *map(str, abuse.parents)])  # in the guest only
    device, said = device_of(lab), []
    before, written = device.num_fds(), (lab.logs / "device.log").stat().st_size
    words = [str(abuse), "29", "1000000000", str(SECONDS)]
    running = lab._guest.connection.start(
        words, cwd="/", env={}, terminal=None, on_output=lambda _, data: said.append(data), user=(USER, USER)
    )
    assert lab.wait(running, TEST_S) == 0
    numbers = json.loads(b"".join(said))

    assert numbers["submitted"] > SECONDS
    assert device.is_running()
    assert device.memory_info().rss < MOST_MIB << 20
    assert device.num_fds() <= before + 8
    assert (lab.logs / "device.log").stat().st_size - written < 8 << 20
    assert "Traceback" not in (lab.logs / "device.log").read_text() + (lab.logs / "host.log").read_text()
    # A job that waits for ever holds others up until the driver's timeout, 60 s.
    until = time.monotonic() + TEST_S / 2
    while lab.run(load(jobs=20), timeout=TEST_S).status:
        assert time.monotonic() < until
