"""`python -m accel_magic lab run|trace|shell`, run from a shell."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

import accel_magic

pytestmark = pytest.mark.lab

LAB = [sys.executable, "-m", "accel_magic", "lab"]


def test_run_returns_output_files_and_status(tmp_path):
    script = 'echo "$(uname -n) $(cat)"; echo wrong >&2; echo made > file; echo lost > /var/tmp/lost; exit 7'

    done = subprocess.run(
        [*LAB, "run", "--quiet", "--", "sh", "-c", script],
        cwd=tmp_path,
        input=b"x" * 100_000,
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 7
    assert done.stdout == b"npu-lab " + b"x" * 100_000 + b"\n"
    assert done.stderr == b"wrong\n"
    assert (tmp_path / "file").read_text() == "made\n"
    assert not os.path.exists("/var/tmp/lost")  # noqa: PTH110


def test_trace_prints_the_result_and_saves_it(tmp_path):
    probes = ["intel_vpu:ivpu_bo_create_ioctl", "latency:intel_vpu:ivpu_bo_wait_ioctl"]

    done = subprocess.run(
        [*LAB, "trace", *probes, "--save", "jobs.parquet", "--", "npu_load", "--jobs", "12"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "jobs     ok 12, failed 0" in done.stdout
    assert "NPU LAB: the real driver on an emulated NPU" in done.stdout
    result = accel_magic.open(tmp_path / "jobs.parquet")
    assert result.counts["hits"].tolist() == [12, 12]
    assert result.latency["count"].tolist() == [12]
    assert result.machine["device"] == "Intel NPU 8086:7d1d (intel_vpu), emulated"
    assert result.machine["host"] == "npu-lab"
    assert (result.events["comm"] == "npu_load").all()


@pytest.mark.thorough  # boots its own virtual machine
def test_an_interrupt_ends_the_command_in_the_guest(tmp_path):
    script = "trap 'echo interrupted; exit 9' INT; echo on; while :; do sleep 0.1; done"
    with subprocess.Popen(
        [*LAB, "run", "--quiet", "--", "sh", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "on\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"

        assert process.wait(60) == 9


class Terminal:
    """A program on its own terminal."""

    def __init__(self, *command, folder):
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ["SHELL"] = "/bin/sh"
            os.execv(command[0], command)
        self.shown = b""

    def wait_for(self, text, seconds=90):
        until = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < until, self.shown.decode(errors="replace")
            if select.select([self.descriptor], [], [], 0.5)[0]:
                self.shown += os.read(self.descriptor, 65536)

    def status(self):
        while select.select([self.descriptor], [], [], 30)[0]:
            try:
                self.shown += os.read(self.descriptor, 65536)
            except OSError:  # the other side is closed
                break
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.mark.thorough  # boots its own virtual machine
def test_a_shell_accepts_input_and_interrupts(tmp_path):
    terminal = Terminal(*LAB, "shell", folder=tmp_path)
    terminal.wait_for(b"starting")
    os.write(terminal.descriptor, b"echo early-$((40+2))\n")
    terminal.wait_for(b"exit ends the lab")
    terminal.wait_for(b"early-42")
    os.write(terminal.descriptor, b"echo $(uname -n)-$((6*7)); stty size\n")
    terminal.wait_for(b"npu-lab-42")
    terminal.wait_for(b"24 80")
    # The child reports that it runs, because an earlier ^C would go to the shell.
    os.write(terminal.descriptor, b"sh -c 'echo up-$((1+1)); exec sleep 1000'\n")
    terminal.wait_for(b"up-2")
    os.write(terminal.descriptor, b"\x03")
    os.write(terminal.descriptor, b"echo status $?; pwd > where; exit 5\n")
    terminal.wait_for(b"status 130")

    assert terminal.status() == 5
    assert (tmp_path / "where").read_text() == f"{tmp_path}\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["run"], "command"),
        (["trace", "intel_vpu:*"], "command"),
        (["shell"], "terminal"),
        (["run", "--driver-option", "x", "--", "true"], "--driver-option"),
        (["run", "--share", "/nowhere", "--", "true"], "/nowhere"),
        (["run", "--share", "/run", "--", "true"], "/run"),
        (["status", "--", "true"], "--"),
        pytest.param(
            ["run", "--", "no-such-command"],
            "no-such-command",
            marks=pytest.mark.thorough,  # boots its own virtual machine
        ),
        pytest.param(
            ["trace", "intel_vpu:ivpu_bo_crate_ioctl", "--", "true"],
            "ivpu_bo_create_ioctl",
            marks=pytest.mark.thorough,  # boots its own virtual machine; unit tests cover the suggestion
        ),
    ],
)
def test_mistakes_are_reported_without_a_traceback(arguments, expected, tmp_path):
    done = subprocess.run(
        [*LAB, *arguments],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode in {1, 2}
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
