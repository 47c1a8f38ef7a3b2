"""Running iaprof, mocked by a script with the command line, output and shutdown of the real program."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from accel_magic import scratch
from accel_magic.api import doctor
from accel_magic.errors import MachineError, TraceStateError
from accel_magic.subsystems.iaprof import iaprof_process, requirements
from accel_magic.subsystems.iaprof.iaprof_process import IaprofRun
from accel_magic.subsystems.iaprof.requirements import Requirement
from accel_magic.subsystems.iaprof.result import IaprofResult
from tests.support.errors import raises

pytestmark = pytest.mark.component

MOCK = """\
#!{python}
# Mock iaprof.
import json, os, signal, sys, time

def log(text):
    print(text, file=sys.stderr, flush=True)

def end():
    if os.environ.get("MOCK_IAPROF") == "stubborn":
        return
    sys.stdout.flush()
    log("\\x1b[0;36mINFO\\x1b[00m: matched: 90 unmatched: 7")
    sys.exit(0)

how = os.environ.get("MOCK_IAPROF", "")
if how == "refuses":
    log("WARNING: Failed to find any devices.")
    log("\\x1b[0;31mERROR\\x1b[00m: Failed to open any drivers.")
    sys.exit(1)
signal.signal(signal.SIGINT, lambda *_: end())
with open({started!r}, "w") as file:
    json.dump([os.getpid(), os.getppid(), sys.argv[1:]], file)
interval = 0
print("string\\t1\\tpython3")
while True:
    if how != "silent":
        print(f"interval\\t{{interval}}\\t{{time.monotonic():.6f}}")
        print("kernel\\t0x100\\t1\\t7\\t0\\t0\\t0")
        print("eustall\\t0x40\\t0\\t1\\t2\\t0\\t0\\t0\\t0\\t0\\t0\\t0\\t0")
        print(f"metric\\tbusy-percent\\t{{interval % 100}}")
    sys.stdout.flush()
    interval += 1
    if how == "dies" and interval == 3:
        print("eustall\\t0x40\\t0\\t1\\t2\\t0", end="")
        log("ERROR: poll failed with errno 5")
        sys.exit(5)
    time.sleep(0.01)
"""


@pytest.fixture
def mock_iaprof(tmp_path, monkeypatch):
    """Write the mock program, and return a function that reads its pid, parent and arguments."""
    import json

    started = tmp_path / "started.json"
    program = tmp_path / "iaprof"
    program.write_text(MOCK.format(python=sys.executable, started=str(started)))
    program.chmod(0o755)
    monkeypatch.setenv(requirements.VARIABLE, str(program))
    monkeypatch.setattr(iaprof_process.tempfile, "tempdir", str(tmp_path))
    return lambda: json.loads(started.read_text())


def unchecked(**options):
    return IaprofRun(checks=tuple, **options)


def alive(pid):
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def wait_until(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_result_has_the_samples_taken_between_go_and_halt(mock_iaprof, tmp_path):
    iaprof = unchecked(interval=100, eu_stall_subsample=50)
    iaprof.start()
    pid, _, arguments = mock_iaprof()
    assert alive(pid)
    time.sleep(0.05)
    before = time.monotonic()
    iaprof.go()
    time.sleep(0.1)
    after = time.monotonic()
    iaprof.halt()
    time.sleep(0.3)
    iaprof.stop()

    assert arguments == ["--interval=100", "--eu-stall-subsample=50"]
    assert not alive(pid)
    result = IaprofResult(iaprof.profile)
    ends = result.intervals["end_ns"] / 1e9
    assert len(ends) >= 3
    assert before < ends.iloc[0]
    assert ends.iloc[-2] < after
    assert ends.iloc[-1] >= after
    assert result.total == 3 * len(result.intervals)
    assert result.stalls.by_reason["samples"].tolist()[:2] == [len(result.intervals), 2 * len(result.intervals)]
    assert [(lost.count, lost.why) for lost in result.profile.lost] == [
        (7, "EU stall records at addresses outside the kernels known to iaprof")
    ]
    assert "one of every 50 samples" in result.profile.notes[0]
    assert result.machine["kernel"]
    assert result.profile.started
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_an_error_in_the_block_is_raised_and_the_recording_is_kept(mock_iaprof):
    iaprof = unchecked()
    with pytest.raises(ZeroDivisionError), iaprof:
        output = iaprof._place("profile.txt")
        written = output.stat().st_size
        wait_until(lambda: output.stat().st_size > written + 1000)
        1 / 0  # noqa: B018

    assert iaprof.profile.total > 0
    assert not alive(mock_iaprof()[0])


def test_an_iaprof_that_fails_to_start_is_an_error_with_its_message(mock_iaprof, monkeypatch, tmp_path):
    monkeypatch.setenv("MOCK_IAPROF", "refuses")

    with raises("iaprof.ended", MachineError) as raised:
        unchecked().start()

    assert raised.value.why == "ERROR: Failed to open any drivers."
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_an_iaprof_that_cannot_be_executed_is_an_error_with_the_reason(mock_iaprof, tmp_path):
    (tmp_path / "iaprof").write_text("#!/no/such/interpreter\n")

    with raises("iaprof.ended", MachineError) as raised:
        unchecked().start()
    assert "No such file" in raised.value.why


def test_an_iaprof_that_writes_nothing_is_stopped_with_an_error(mock_iaprof, monkeypatch):
    monkeypatch.setenv("MOCK_IAPROF", "silent")
    monkeypatch.setattr(iaprof_process, "START_S", 0.3)
    # Without its first line, the mock writes nothing at all.
    script = Path(os.environ[requirements.VARIABLE])
    script.write_text(script.read_text().replace('print("string\\t1\\tpython3")', ""))

    with raises("iaprof.no-answer", MachineError):
        unchecked().start()
    assert not alive(mock_iaprof()[0])


def test_if_iaprof_dies_its_output_is_kept_with_a_note(mock_iaprof, monkeypatch):
    monkeypatch.setenv("MOCK_IAPROF", "dies")

    iaprof = unchecked()
    iaprof.start()
    monkeypatch.setattr(iaprof, "_go_ns", 0)
    wait_until(lambda: iaprof._keeper.poll() is not None)
    iaprof.stop()

    assert iaprof.profile.total == 9
    assert iaprof.profile.dropped == {"cut off": 1}
    assert any("exited before" in note and "errno 5" in note for note in iaprof.profile.notes)


def test_an_iaprof_that_does_not_stop_is_killed_with_a_note(mock_iaprof, monkeypatch):
    monkeypatch.setenv("MOCK_IAPROF", "stubborn")
    monkeypatch.setattr(iaprof_process, "TIMEOUT_S", 0.2)
    monkeypatch.setattr(iaprof_process, "GRACE_S", 3600)

    with unchecked() as iaprof:
        pass

    assert not alive(mock_iaprof()[0])
    assert any("was killed" in note for note in iaprof.profile.notes)


def test_iaprof_ends_when_the_notebook_is_killed_even_if_a_forked_child_survives(mock_iaprof, tmp_path):
    notebook = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                f"""
                import os, tempfile, time
                tempfile.tempdir = {str(tmp_path)!r}
                from accel_magic.subsystems.iaprof.iaprof_process import IaprofRun
                IaprofRun(checks=tuple).start()
                if os.fork() == 0:
                    time.sleep(20)
                    os._exit(0)
                print("started", flush=True)
                time.sleep(20)
                """
            ),
        ],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        assert notebook.stdout.readline() == b"started\n"
        pid, keeper, _ = mock_iaprof()
        os.kill(notebook.pid, signal.SIGKILL)
        wait_until(lambda: not alive(pid) and not alive(keeper))
        wait_until(lambda: not [path for path in tmp_path.iterdir() if path.is_dir()])
    finally:
        os.killpg(notebook.pid, signal.SIGKILL)
        notebook.wait()
        notebook.stdout.close()


def test_iaprof_ends_with_its_keeper(mock_iaprof, tmp_path):
    iaprof = unchecked()
    iaprof.start()
    pid, keeper, _ = mock_iaprof()
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: not alive(pid))

    scratch.sweep()
    assert list(tmp_path.glob("accel_magic-iaprof-*/profile.txt"))  # this process still holds the recording
    iaprof.abort()
    assert list(tmp_path.glob("accel_magic-iaprof-*")) == []
    with raises("iaprof.not-running", TraceStateError):
        iaprof.stop()
    with raises("trace.no-result", TraceStateError):
        _ = iaprof.profile


def test_all_missing_requirements_are_named_before_anything_starts(mock_iaprof):
    checks = (
        Requirement("root", met=False, detail="no, user 7", fix="start Jupyter as root"),
        Requirement("driver xe", met=False, detail="not loaded", fix="modprobe xe"),
        Requirement("frame pointers", met=False, detail="none", fix="build it", needed=False),
        Requirement("runtime", met=None, detail="unknown", fix="import it"),
    )

    with raises("iaprof.unusable", MachineError) as raised:
        IaprofRun(checks=lambda: checks).start()

    assert raised.value.why == "root: no, user 7; driver xe: not loaded"
    assert raised.value.fix == "start Jupyter as root; modprobe xe"


@pytest.fixture
def battlemage(tmp_path):
    """Root folder with the files of a machine with an Arc B580 and a suitable kernel."""
    root = tmp_path / "root"
    device = root / "sys/devices/gpu"
    for path, text in {
        "sys/devices/gpu/vendor": "0x8086\n",
        "sys/devices/gpu/device": "0xe20b\n",
        "proc/modules": "xe 3000000 1 - Live 0x0\n",
        "proc/sys/dev/xe/observation_paranoid": "1\n",
        "sys/kernel/btf/vmlinux": "",
        "sys/kernel/btf/xe": "",
        "sys/kernel/tracing/available_filter_functions": "do_one\nxe_vm_bind_ioctl [xe]\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "sys/module/xe").mkdir(parents=True)
    (root / "sys/bus/pci/drivers/xe").mkdir(parents=True)
    (device / "driver").symlink_to(root / "sys/bus/pci/drivers/xe")
    (root / "sys/class/drm/card0").mkdir(parents=True)
    (root / "sys/class/drm/card0/device").symlink_to(device)
    return root


def met(root):
    return {one.name: one.met for one in requirements.requirements(root)}


def test_each_requirement_is_checked(battlemage, mock_iaprof, monkeypatch):
    monkeypatch.setattr(requirements.features, "kernel_version", lambda: (6, 15))
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 0)
    found = met(battlemage)
    names = [
        "Xe2 GPU", "Linux 6.15", "driver xe", "xe streams", "BTF", "fentry", "root", "program",
    ]  # fmt: skip
    assert [found[name] for name in names] == [True] * len(names)

    (battlemage / "sys/kernel/btf/xe").unlink()
    (battlemage / "sys/kernel/tracing/available_filter_functions").write_text("xe_vm_bind_ioctl_other\n")
    (battlemage / "sys/devices/gpu/device").write_text("0x56a0\n")
    monkeypatch.setattr(requirements.features, "kernel_version", lambda: (6, 14))
    monkeypatch.setattr(requirements.os, "geteuid", lambda: 1000)
    monkeypatch.setenv(requirements.VARIABLE, "no-such-program")
    found = met(battlemage)
    assert [found[name] for name in names] == [None, False, True, False, False, False, False, False]
    assert all(one.fix for one in requirements.requirements(battlemage) if one.met is False)


def test_a_machine_without_the_gpu_does_not_meet_the_requirements(tmp_path):
    found = met(tmp_path)

    assert found["Xe2 GPU"] is False
    assert found["driver xe"] is False
    assert found["xe streams"] is False


def test_the_doctor_shows_iaprof_if_requested_or_if_there_is_an_xe_gpu(battlemage, tmp_path):
    def shown(root, **asked):
        return [check for check in doctor.examine(root, **asked).checks if check.name.startswith("iaprof: ")]

    assert shown(tmp_path / "nothing") == []
    assert shown(tmp_path / "nothing", requested=["xe"])[0].name == "iaprof: Xe2 GPU"
    there = shown(battlemage)
    assert [check.status for check in there][:1] == ["ok"]
    assert {check.status for check in there} <= {"ok", "warning", "info"}
