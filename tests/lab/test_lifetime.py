"""Start and end of a lab: it never outlives the process that started it, and every end is reported."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.vm.connection import GuestGoneError
from accel_magic.lab.vm.lab import Lab
from accel_magic.lab.vm.lab_settings import Settings

KERNEL = "7.2"
GONE_S = 60.0
ANSWER_S = 240.0


@pytest.fixture
def start(image_of):
    """A function that starts labs; they are closed at the end of the test."""
    image_of(KERNEL)
    labs = []

    def start_(**settings):
        labs.append(Lab(Settings(kernel=KERNEL, **{"deadline_s": 1200.0, **settings})))
        return labs[-1].start()

    yield start_
    for lab in labs:
        lab.close()


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid):
    return [pid, *(grandchild for child in children(pid) for grandchild in descendants(child))]


def by_name(lab, name):
    """The lab's process whose command contains this word."""
    (found,) = [pid for pid in children(lab._guest.keeper.pid) if name in Path(f"/proc/{pid}/cmdline").read_text()]
    return found


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pids, *folders):
    end = time.monotonic() + GONE_S
    while (left := [*filter(is_running, pids), *filter(Path.exists, folders)]) and time.monotonic() < end:
        time.sleep(0.05)
    assert left == []


OWNER = """
import json, sys, time
from accel_magic.lab.vm.lab_settings import Settings
from accel_magic.lab import Lab
lab = Lab(Settings(kernel=sys.argv[1], deadline_s=1200)).start()
process = lab.popen(["sleep", "1000"], on_output=print)
print(json.dumps([lab._guest.keeper.pid, str(lab.exchange.parent)]), flush=True)
time.sleep(1000)
"""


def test_killing_the_process_that_started_a_lab_ends_the_whole_lab(image_of):
    image_of(KERNEL)
    owner = subprocess.Popen([sys.executable, "-c", OWNER, KERNEL], stdout=subprocess.PIPE)
    keeper, folder = json.loads(owner.stdout.readline())
    processes = descendants(keeper)
    words = " ".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in processes)
    assert "qemu-system" in words
    assert "accel_magic.lab.device" in words

    owner.kill()
    owner.wait()

    wait_until_gone(processes, Path(folder))


@pytest.mark.thorough  # boots its own virtual machine
def test_closing_ends_the_whole_lab_and_closing_again_is_harmless(start):
    lab = start()
    processes, folder = descendants(lab._guest.keeper.pid), lab.exchange.parent

    lab.close()
    lab.close()

    wait_until_gone(processes, folder)
    assert json.loads((lab.logs / "device.json").read_text())["boots"]["cold"] == 1
    assert "failed to load" not in lab.console()  # init loaded all modules
    with pytest.raises(MachineError) as caught:
        lab.run(["true"])
    assert caught.value.code == "lab.guest-gone"


@pytest.mark.thorough  # boots its own virtual machine
def test_a_hanging_guest_is_ended_at_its_deadline(start):
    for deadline_s in (20, 60, 180):  # the time to boot depends on the machine
        with contextlib.suppress(MachineError):
            lab = start(deadline_s=deadline_s)
            break
    processes, folder = descendants(lab._guest.keeper.pid), lab.exchange.parent

    with pytest.raises(MachineError) as caught:
        lab.run(["sleep", "1000"], timeout=deadline_s + ANSWER_S)

    assert caught.value.code == "lab.guest-gone"
    assert f"deadline of {deadline_s} s" in caught.value.why
    assert str(lab.logs) in caught.value.fix
    wait_until_gone(processes, folder)


@pytest.mark.thorough  # boots its own virtual machine
def test_a_panic_of_the_guests_kernel_is_reported_and_its_console_kept(start):
    lab = start()

    with pytest.raises(MachineError) as caught:
        lab.run(["sh", "-c", "echo before; echo c > /proc/sysrq-trigger; sleep 60"], timeout=ANSWER_S)

    assert caught.value.code == "lab.guest-gone"
    assert caught.value.why == "Kernel panic - not syncing: sysrq triggered crash"
    console = (lab.logs / "console.log").read_text(errors="replace")
    assert "Kernel panic - not syncing: sysrq triggered crash" in console
    assert lab.console().count("Kernel panic") == 1


@pytest.mark.thorough  # boots its own virtual machine
def test_killing_qemu_ends_the_running_command_with_an_error(start):
    lab = start()
    processes, folder = descendants(lab._guest.keeper.pid), lab.exchange.parent
    process = lab.popen(["sleep", "1000"], on_output=lambda *_: None)

    lab.run(["sh", "-c", "echo '<0>the last words' > /dev/kmsg"], timeout=ANSWER_S)
    os.kill(by_name(lab, "qemu-system"), signal.SIGKILL)

    with pytest.raises(MachineError) as caught:
        lab.wait(process, ANSWER_S)
    assert caught.value.code == "lab.guest-gone"
    assert "SIGKILL" in caught.value.why
    assert "the last words" in caught.value.why
    with pytest.raises(GuestGoneError) as gone:
        process.write(b"a line")
    assert "SIGKILL" in str(gone.value)
    wait_until_gone(processes, folder)


@pytest.mark.thorough  # boots its own virtual machine; tests/unit/lab/vm/test_keeper.py covers the report
def test_killing_the_device_ends_the_lab_and_is_reported(start, load):
    lab = start()
    processes, folder = descendants(lab._guest.keeper.pid), lab.exchange.parent
    process = lab.popen(load(jobs=100_000), on_output=lambda *_: None)
    time.sleep(0.5)

    os.kill(by_name(lab, "accel_magic.lab.device"), signal.SIGKILL)

    with pytest.raises(MachineError) as caught:
        lab.wait(process, ANSWER_S)
    assert caught.value.code == "lab.guest-gone"
    assert "the emulated NPU exited" in caught.value.why
    wait_until_gone(processes, folder)


@pytest.mark.thorough  # boots its own virtual machine
def test_two_labs_at_once_do_not_disturb_each_other(guest, start, load):
    other = start()

    both = [lab.popen(load(jobs=50), on_output=lambda *_: None) for lab in (guest.lab, other)]
    assert [lab.wait(process, ANSWER_S) for lab, process in zip((guest.lab, other), both, strict=True)] == [0, 0]
    other.run(["sh", "-c", "echo only here > /tmp/mark"])
    other.close()

    assert guest.lab.run(["cat", "/tmp/mark"]).status != 0
    assert guest.trace("intel_vpu:ivpu_bo_create_ioctl", command=load(jobs=4)).hits == 4


@pytest.mark.thorough  # moves many megabytes
def test_large_output_arrives_completely(guest):
    text = (
        "import sys\nfor n in range(200_000): sys.stdout.write(f'{n:060d}\\n'); n % 1000 or sys.stderr.write(f'{n}\\n')"
    )

    done = guest.lab.run([sys.executable, "-c", text], timeout=ANSWER_S)

    expected = hashlib.sha256(b"".join(b"%060d\n" % number for number in range(200_000)))
    assert done.status == 0
    assert hashlib.sha256(done.stdout).digest() == expected.digest()
    assert done.stderr == b"".join(b"%d\n" % number for number in range(0, 200_000, 1000))


def test_concurrent_commands_get_their_own_output(guest, collect):
    def run(number):
        return guest.lab.run(["sh", "-c", f"for i in 1 2 3 4 5; do echo {number}.$i; sleep 0.1; done"]).text

    waits = [collect(lambda number=number: run(number)) for number in range(8)]

    for number, wait in enumerate(waits):
        assert wait() == "".join(f"{number}.{i}\n" for i in range(1, 6))
