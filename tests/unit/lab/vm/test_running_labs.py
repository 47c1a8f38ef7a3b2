"""Who runs labs on this machine, and limits on their number."""

import os

import pytest

from accel_magic.errors import MachineError
from accel_magic.lab.vm import lab_limits, running_labs
from accel_magic.lab.vm.lab_limits import LabLimits
from accel_magic.lab.vm.lab_settings import Settings
from accel_magic.lab.vm.qemu_command import Memory
from accel_magic.lab.vm.running_labs import RunningLab
from tests.support.errors import raises
from tests.unit.lab.vm.test_lab_settings import qemu

STAT = "S 1 7 7 0 -1 0 0 0 0 0 250 150 0 0 20 0 4 0 {start} 1 1"


@pytest.fixture
def process(tmp_path):
    """Make a process in a folder like /: `process(7, words, pss_kb=1024)`."""

    def make(pid, words, pss_kb=None, start=0):
        folder = tmp_path / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "cmdline").write_bytes("\0".join(words).encode() + b"\0")
        (folder / "stat").write_text(f"{pid} (qemu (1)) {STAT.format(start=start)}")
        if pss_kb is not None:
            (folder / "smaps_rollup").write_text(f"Rss: 9 kB\nPss:   {pss_kb} kB\nPss_Dirty: 1 kB\n")
        return tmp_path

    return make


def test_labs_are_found_by_their_qemus_with_what_they_run(process, tmp_path):
    shares = tuple(tmp_path / name for name in ("exchange", "a class", "b,c"))
    saved = Memory(tmp_path / "snapshots" / "7.2-0123456789ab-ba9876543210" / "ram", state=tmp_path / "state")
    process(7, qemu(Settings(), shares=shares, memory=saved), pss_kb=2048, start=500)
    process(8, qemu(Settings()), start=100)
    process(9, ["qemu-system-x86_64", "-kernel", "/of/somebody/else"])
    root = process(10, ["python", "name=accel_magic"])
    (root / "proc" / "11").mkdir()

    booted, restored = running_labs.find(root)

    assert (booted.pid, booted.restored, booted.memory_mib, booted.folders) == (8, False, None, ())
    assert (restored.pid, restored.kernel, restored.restored, restored.memory_mib) == (7, "7.2", True, 2.0)
    assert restored.folders == (str(tmp_path / "a class"), str(tmp_path / "b,c"))
    assert restored.uid == os.getuid()
    assert restored.cpu_s == 400 / os.sysconf("SC_CLK_TCK")
    assert booted.age_s - restored.age_s == pytest.approx(400 / os.sysconf("SC_CLK_TCK"), abs=0.2)


def lab(pid, uid):
    return RunningLab(pid, uid, "somebody", "7.2", True, 1.0, 1.0, None, ())


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (LabLimits(user_labs=2), "you already run 2 labs"),
        (LabLimits(user_labs=3), None),
        (LabLimits(all_labs=3), "this machine already runs 3 labs"),
        (LabLimits(user_labs=3, all_labs=4), None),
        (LabLimits(free_mib=1 << 30), "there is not enough memory for another lab"),
        (LabLimits(free_mib=1), None),
        (LabLimits(), None),
    ],
)
def test_a_lab_starts_if_the_limits_allow_one_more(monkeypatch, limits, what):
    monkeypatch.setattr(
        running_labs, "find", lambda: [lab(1, os.getuid()), lab(2, os.getuid()), lab(3, os.getuid() + 1)]
    )
    if what is None:
        lab_limits.check(limits)
        return
    with raises("lab.too-many", MachineError) as caught:
        lab_limits.check(limits)
    assert caught.value.what == what


def test_limits_are_read_from_the_administrators_file(tmp_path):
    file = tmp_path / "lab.toml"
    assert lab_limits.load(file) == LabLimits()
    file.write_text("user_labs = 1  # one each\nall_labs = 30\n")
    assert lab_limits.load(file) == LabLimits(user_labs=1, all_labs=30)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("user_labs = [", ""),
        ("labs = 3", "labs is not one of user_labs, all_labs, free_mib"),
        ("user_labs = -1", "user_labs = -1 is not a number"),
        ("free_mib = true", "free_mib = True is not a number"),
        ("all_labs = '3'", "all_labs = '3' is not a number"),
    ],
)
def test_other_content_is_an_error_that_names_it(tmp_path, text, why):
    file = tmp_path / "lab.toml"
    file.write_text(text)
    with raises("lab.bad-limits", MachineError) as caught:
        lab_limits.load(file)
    assert why in caught.value.why
