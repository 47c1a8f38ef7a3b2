"""The NPU loads in C and in Python against a fake NPU that logs every call itself (fake_npu.c)."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from accel_magic.lab import npu

pytestmark = pytest.mark.component

NODE = "/dev/accel/accel0"
COMPILER = shutil.which("cc") or shutil.which("gcc")

REQUESTS = {
    "c0406400": "VERSION",
    "c0106440": "GET_PARAM",
    "c0186442": "BO_CREATE",
    "c0206443": "BO_INFO",
    "40206445": "SUBMIT",
    "c0186446": "BO_WAIT",
    "c00c644b": "CMDQ_CREATE",
    "4004644c": "CMDQ_DESTROY",
    "4020644d": "CMDQ_SUBMIT",
    "40086409": "GEM_CLOSE",
}


class Npu:
    """The fake NPU: its settings and its log."""

    def __init__(self, library, folder, load):
        self.log = folder / "log"
        self.load = load
        self.settings = {"FAKE_NPU": NODE, "FAKE_LOG": str(self.log), "LD_PRELOAD": str(library)}

    def environment(self):
        return {**os.environ, **self.settings}

    def start(self, which, *arguments):
        command = [str(self.load)] if which == "c" else [sys.executable, "-m", "accel_magic.lab.npu"]
        return subprocess.Popen(
            [*command, *arguments], env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, which, *arguments):
        """Exit status, standard output and standard error."""
        process = self.start(which, *arguments)
        printed, complaint = process.communicate(timeout=60)
        return process.returncode, printed, complaint

    def script(self, text):
        done = subprocess.run(
            [sys.executable, "-c", text],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lines(self, kind):
        return [line.split()[1:] for line in self.log.read_text().splitlines() if line.startswith(f"{kind} ")]

    def ioctls(self):
        """Calls by name and errno, from the fake NPU's log."""
        return Counter((REQUESTS[request], int(error)) for _, request, error in self.lines("ioctl"))


def claimed(report):
    """Calls by name and errno, from a load's JSON."""
    calls = Counter()
    for name, call in report["ioctls"].items():
        calls[name, 0] = call["ok"]
        for error, count in call["failed"].items():
            calls[name, getattr(errno, error)] = count
    return +calls


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    if COMPILER is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("npu")
    library = folder / "fake_npu.so"
    source = Path(__file__).with_name("fake_npu.c")
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-pthread"], check=True, timeout=60
    )
    # Not static, so that the fake can be preloaded.
    return library, npu.compile_load(folder, static=False)


@pytest.fixture
def fake(programs, tmp_path):
    return Npu(programs[0], tmp_path, programs[1])


both = pytest.mark.parametrize("which", ["c", "python"])


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Counts


@both
@pytest.mark.parametrize("cmdq", ["no", "os", "yes"])
def test_every_ioctl_is_counted_as_the_driver_sees_it(fake, which, cmdq):
    fake.settings["FAKE_CMDQ"] = cmdq

    status, printed, _ = fake.run(
        which, "--jobs", "50", "--processes", "3", "--threads", "2", "--buffers", "3", "--size", "5000", "--json"
    )

    report = json.loads(printed)
    queued = cmdq == "yes"
    refused = cmdq == "no"  # the driver of 6.12 rejects the capability
    expected = {
        ("VERSION", 0): 3,
        ("GET_PARAM", 0): 3 * 14 - 3 * refused,
        ("GET_PARAM", 22): 3 * refused,
        ("BO_CREATE", 0): 150,
        ("BO_INFO", 0): 150,
        ("CMDQ_CREATE", 0): 6 * queued,
        ("SUBMIT", 0): 50 * (not queued),
        ("CMDQ_SUBMIT", 0): 50 * queued,
        ("BO_WAIT", 0): 50,
        ("GEM_CLOSE", 0): 150,
        ("CMDQ_DESTROY", 0): 6 * queued,
    }
    assert status == 0
    assert fake.ioctls() == +Counter(expected)
    assert claimed(report) == fake.ioctls()
    assert (report["jobs"], report["ok"], report["failed"], report["unfinished"]) == (50, 50, 0, 0)
    assert report["statuses"] == {"0": 50}
    assert report["submit"] == ("cmdq" if queued else "submit")
    assert report["params"]["device_id"] == 1000
    assert report["params"]["sku"] == 1012
    assert report["params"]["cap_manage_cmdq"] == {"no": None, "os": 0, "yes": 1}[cmdq]


@both
def test_each_process_opens_the_device_once_and_does_its_share(fake, which):
    fake.run(which, "--jobs", "20", "--processes", "4", "--threads", "2")

    opened = [process for (process,) in fake.lines("open")]
    assert len(opened) == len(set(opened)) == 4
    # 20 jobs for 8 workers: the first four workers have three, so the processes have 6, 6, 4 and 4.
    assert sorted(Counter(job[0] for job in fake.lines("job")).values()) == [4, 4, 6, 6]


@both
@pytest.mark.parametrize("cmdq", ["no", "yes"])
def test_sizes_flags_and_priority_reach_the_driver(fake, which, cmdq):
    fake.settings["FAKE_CMDQ"] = cmdq

    fake.run(which, "--jobs", "2", "--buffers", "3", "--size", "5000", "--priority", "focus")

    mappable, and_shave = ["5000", "2"], ["5000", "3"]
    assert [line[1:] for line in fake.lines("create")] == [mappable, and_shave, and_shave] * 2
    queues, jobs = ([line[1:] for line in fake.lines(kind)] for kind in ("queue", "job"))
    if cmdq == "yes":
        assert queues == [["3"]]
        assert [job[:2] for job in jobs] == [["3", "1"]] * 2
    else:
        assert queues == []
        assert [job[:2] for job in jobs] == [["3", "3"]] * 2


@both
def test_failed_calls_count_by_errno_and_their_jobs_as_failed(fake, which):
    fake.settings["FAKE_FAIL"] = "c0186442:12"

    status, printed, _ = fake.run(which, "--jobs", "7", "--json")

    report = json.loads(printed)
    assert status == 1
    assert report["ioctls"]["BO_CREATE"] == {"ok": 0, "failed": {"ENOMEM": 7}}
    assert claimed(report) == fake.ioctls()
    assert (report["ok"], report["failed"], report["latency_ns"]) == (0, 7, None)


@both
def test_buffers_made_before_a_call_fails_are_closed(fake, which):
    fake.settings["FAKE_FAIL"] = "c0206443:5"

    fake.run(which, "--jobs", "4", "--buffers", "2")

    assert fake.ioctls()["BO_CREATE", 0] == fake.ioctls()["GEM_CLOSE", 0] == 4


def test_both_programs_print_the_same(fake):
    arguments = ["--jobs", "12", "--processes", "2", "--fault", "slow=3000", "--every", "4"]
    texts = [re.sub(r"[\d.]+ (s by|us)", r"# \1", fake.run(which, *arguments)[1]) for which in ("c", "python")]
    reports = [json.loads(fake.run(which, *arguments, "--json")[1]) for which in ("c", "python")]

    assert texts[0] == texts[1]
    assert "faults   slow requested 3 times" in texts[0]
    assert set(reports[0]) == set(reports[1])
    measured = {"duration_ns", "latency_ns", "params"}
    assert {k: v for k, v in reports[0].items() if k not in measured} == {
        k: v for k, v in reports[1].items() if k not in measured
    }
    assert all(npu.Load.from_json(json.dumps(report)).ok == 12 for report in reports)


# Faults, time, interrupts


@both
@pytest.mark.parametrize(
    ("options", "jobs"),
    [
        (["--fault", "slow=7", "--every", "3"], {3, 6, 9}),
        (["--fault", "duplicate", "--at", "2"], {2}),
        ([], set()),
    ],
)
def test_only_the_selected_jobs_carry_the_fault_request(fake, which, options, jobs):
    fake.run(which, "--jobs", "10", "--buffers", "2", *options)

    request = {"slow=7": "414d4c46010000000700000000000000", "duplicate": "414d4c4604000000" + "00" * 8}
    heads = [head for *_, head in fake.lines("job")]
    faulty = request.get(options[1]) if options else None
    assert {number for number, head in enumerate(heads, 1) if head == faulty} == jobs
    assert {head for head in heads if head != faulty} == {"00" * 16}
    assert [written for _, written in fake.lines("other")] == ["0"] * 10


@both
def test_latency_is_measured_from_submission_to_completion(fake, which):
    _, printed, _ = fake.run(which, "--jobs", "3", "--fault", "slow=500000", "--at", "2", "--json")

    latency = json.loads(printed)["latency_ns"]
    assert latency["max"] >= 500_000_000
    assert 200_000 <= latency["p50"] < 500_000_000
    rest = 3 * latency["mean"] - latency["max"] - latency["p50"]  # the third job's; the scheduler may delay any of them
    assert 0 < rest <= latency["p50"] + 3  # each of the three is rounded


@both
def test_an_aborted_job_counts_as_failed_and_a_lost_one_as_timed_out(fake, which):
    fake.settings["FAKE_ABORT_MS"] = "20"
    _, aborted, _ = fake.run(which, "--jobs", "4", "--fault", "hang", "--at", "2", "--json")
    status, lost, _ = fake.run(which, "--jobs", "4", "--fault", "lose", "--every", "2", "--timeout", "0.1", "--json")

    aborted, lost = json.loads(aborted), json.loads(lost)
    assert (aborted["ok"], aborted["failed"], aborted["statuses"]) == (3, 1, {"0": 3, "256": 1})
    assert (lost["ok"], lost["timed_out"], lost["statuses"]) == (2, 2, {"0": 2})
    assert lost["ioctls"]["BO_WAIT"] == {"ok": 2, "failed": {"ETIMEDOUT": 2}}
    assert lost["ioctls"]["GEM_CLOSE"]["ok"] == 4
    assert status == 1


@both
def test_jobs_start_at_the_requested_rate(fake, which):
    _, printed, _ = fake.run(which, "--jobs", "11", "--threads", "3", "--rate", "40", "--json")

    report = json.loads(printed)
    assert report["ok"] == 11
    assert 0.25e9 <= report["duration_ns"] < 2e9  # the last starts after 10 / 40 s


@both
@pytest.mark.parametrize("workers", [("1", "1"), ("1", "3"), ("2", "2")])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_load_ended_by_a_signal_prints_its_counts(fake, which, workers, number):
    processes, threads = workers
    count = int(processes) * int(threads)
    process = fake.start(
        which, "--jobs", "100", "--processes", processes, "--threads", threads, "--timeout", "50", "--json",
        "--fault", "hang", "--every", str(count),
    )  # fmt: skip
    # Every hanging job belongs to the last worker; the others continue.
    wait_for(lambda: fake.log.exists() and any(line[-1].startswith("414d") for line in fake.lines("job")))
    time.sleep(0.1)

    process.send_signal(number)
    printed, complaint = process.communicate(timeout=15)

    report = json.loads(printed)
    assert process.returncode == 128 + number, complaint
    assert report["interrupted"] is True
    assert report["ioctls"]["BO_WAIT"]["failed"]["EINTR"] >= 1
    assert report["unfinished"] == 100 - report["ok"] > 0
    assert claimed(report) == fake.ioctls()


@both
def test_counts_of_a_killed_process_are_kept(fake, which):
    process = fake.start(
        which, "--jobs", "6", "--processes", "3", "--fault", "hang", "--at", "4", "--timeout", "50", "--json"
    )
    wait_for(lambda: fake.log.exists() and any(line[-1].startswith("414d") for line in fake.lines("job")))
    time.sleep(0.1)
    (victim,) = {int(line[0]) for line in fake.lines("job") if line[-1].startswith("414d")}

    os.kill(victim, signal.SIGKILL)
    printed, _ = process.communicate(timeout=15)

    report = json.loads(printed)
    assert process.returncode == 1
    assert (report["killed"], report["ok"], report["unfinished"]) == (1, 5, 1)
    assert claimed(report) == fake.ioctls()


# Errors


@both
def test_the_error_for_a_missing_device_names_it_and_the_command_for_the_lab(which, tmp_path, programs):
    fake = Npu(programs[0], tmp_path, programs[1])
    fake.settings["FAKE_OPEN"] = "2"

    status, printed, complaint = fake.run(which, "--json")

    assert (status, printed) == (3, "")
    assert NODE in complaint
    assert "python -m accel_magic lab run" in complaint


@both
@pytest.mark.parametrize(
    ("settings", "arguments", "expected"),
    [
        ({"FAKE_OPEN": "13"}, [], "root, or as a member of the group"),
        ({"FAKE_NAME": "habanalabs"}, [], "does not belong to the intel_vpu driver"),
        ({"FAKE_FAIL": "c0406400:25"}, [], "ENOTTY"),
        ({"FAKE_CMDQ": "no"}, ["--submit", "cmdq"], "--submit"),
        ({"FAKE_CMDQ": "os"}, ["--submit", "cmdq", "--processes", "2"], "--submit"),
    ],
)
def test_the_error_for_an_unusable_device_names_the_reason(fake, which, settings, arguments, expected):
    fake.settings.update(settings)

    status, printed, complaint = fake.run(which, *arguments)

    assert (status, printed) == (3, "")
    assert expected in complaint
    assert "Traceback" not in complaint


def test_another_driver_receives_no_ioctl_but_version(fake):
    fake.settings["FAKE_NAME"] = "habanalabs"

    fake.run("c")
    fake.run("python")

    assert fake.ioctls() == {("VERSION", 0): 2}


@both
@pytest.mark.parametrize(
    "arguments",
    [
        ["--jobs", "0"],
        ["--jobs", "many"],
        ["--size", "63"],
        ["--rate", "-1"],
        ["--timeout", "nan"],
        ["--processes", "1025"],
        ["--processes", "64", "--threads", "64"],
        ["--submit", "later"],
        ["--priority", "urgent"],
        ["--fault", "hang"],
        ["--fault", "hang", "--at", "1", "--every", "2"],
        ["--fault", "slow", "--at", "1"],
        ["--fault", "none", "--at", "1"],
        ["--fault", "explode", "--at", "1"],
        ["--at", "1"],
        ["surplus"],
    ],
)
def test_bad_options_are_rejected_before_the_device_is_opened(fake, which, arguments):
    status, printed, complaint = fake.run(which, *arguments)

    assert (status, printed) == (2, "")
    assert "usage" in complaint or "exactly one of" in complaint or "more than" in complaint
    assert not fake.log.exists()


# From Python


def test_load_counts_the_same_in_this_process_and_in_children(fake):
    printed = fake.script(
        "from accel_magic.lab import npu\n"
        "for processes in (1, 3):\n"
        "    print(npu.load(jobs=12, processes=processes, threads=2).to_json())\n"
    )

    first, second = (npu.Load.from_json(line) for line in printed.splitlines())
    assert (first.processes, first.ok, first.functions["ivpu_submit_ioctl"]) == (1, 12, 12)
    assert (second.processes, second.ok, second.functions["ivpu_get_param_ioctl"]) == (3, 12, 42)
    both_loads = claimed(json.loads(first.to_json())) + claimed(json.loads(second.to_json()))
    assert both_loads == fake.ioctls()


def test_an_interrupted_load_prints_its_counts_and_raises(fake):
    fake.settings["FAKE_CMDQ"] = "yes"
    printed = fake.script(
        "import os, signal, threading\n"
        "from accel_magic.lab import npu\n"
        "for processes in (1, 2):\n"
        "    threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "    try:\n"
        "        npu.load(jobs=4, processes=processes, fault='lose', at=1, timeout=50)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted', signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )

    assert printed.count("interrupted True") == 2
    assert printed.count(", interrupted\njobs     ok") == 2
    assert printed.count("1 EINTR") == 2


def test_load_raises_the_errors_of_its_children(fake):
    fake.settings["FAKE_OPEN"] = "13"
    printed = fake.script(
        "from accel_magic.lab import npu\n"
        "for processes in (1, 2):\n"
        "    try:\n"
        "        npu.load(processes=processes)\n"
        "    except npu.device.MachineError as error:\n"
        "        print(error.code, NODE in error.what, '|', error.fix)\n".replace("NODE", repr(NODE))
    )

    assert printed.count("npu.no-permission True | run as root") == 2


def test_a_buffers_memory_is_shared_with_the_device(fake):
    printed = fake.script(
        "from accel_magic.lab import npu\n"
        "import numpy\n"
        "with npu.Device() as device:\n"
        "    command, data = device.create_buffer(100), device.create_buffer(5000)\n"
        "    print(command.size, data.size, len(data.memory), hex(data.address))\n"
        "    command.memory[:16] = bytes(range(16))\n"
        "    view = numpy.frombuffer(data.memory, 'u4')\n"
        "    device.submit([command, data], priority='focus')\n"
        "    print(device.wait(command))\n"
        "    data.close(); data.close(); command.close()\n"
        "    print(data, view.sum(), device.counts.to_dict()['GEM_CLOSE']['ok'])\n"
        "    device.counts.reset()\n"
        "    print(sum(call['ok'] for call in device.counts.to_dict().values()))\n"
    )

    assert printed.splitlines() == ["4096 8192 8192 0x80001000", "0", "<Buffer (closed)> 0 2", "0"]
    assert [line[1:] for line in fake.lines("job")] == [["2", "3", "000102030405060708090a0b0c0d0e0f"]]


def test_failed_calls_raise_an_error_with_name_and_errno(fake):
    printed = fake.script(
        "from accel_magic.lab import npu\n"
        "def attempt(call, *arguments):\n"
        "    try:\n"
        "        call(*arguments)\n"
        "    except npu.IoctlError as error:\n"
        "        print(error.name, error.errno, '|', error.why)\n"
        "with npu.Device() as device:\n"
        "    buffer = device.create_buffer()\n"
        "    buffer.memory[:16] = npu.job_fault('hang')\n"
        "    device.submit([buffer])\n"
        "    attempt(device.wait, buffer, 0.05)\n"
        "    attempt(device.create_queue)\n"
        "    attempt(device.submit, [])\n"
    )

    assert printed.splitlines() == [
        "BO_WAIT 110 | the job is not done yet",
        "CMDQ_CREATE 22 | this kernel's driver has no command queues",
        "SUBMIT 22 | ",
    ]
