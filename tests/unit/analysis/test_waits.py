"""Reasons of waits."""

from dataclasses import replace

import numpy as np
import pytest

from accel_magic.analysis.waits import WAITS, reason, reasons, wait_column, waits_table
from accel_magic.kernel.own_process import OwnProcess
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.stack_table import table
from accel_magic.kernel.syscall_numbers import NUMBERS
from accel_magic.probes.plan import Plan, ProbePoint
from accel_magic.recording.recording import CounterSamples, EventColumn, Events, Histograms, Recording

ASLEEP, DISK = 8193, 2
FAULT = ("asm_exc_page_fault", "exc_page_fault", "handle_mm_fault", "schedule")
STORAGE = ("entry_SYSCALL_64_after_hwframe", "folio_wait_bit", "io_schedule", "schedule")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("futex", "lock"),
        ("flock", "lock"),
        ("clock_nanosleep", "sleep"),
        ("epoll_wait", "poll"),
        ("wait4", "waiting for a child"),
        ("rt_sigtimedwait", "waiting for a signal"),
        ("read", "IO: read"),
        ("recvfrom", "IO: recvfrom"),
        ("ioctl", "ioctl"),
        ("mmap", "mmap"),
    ],
)
def test_a_wait_in_a_system_call_is_named_by_what_the_call_waits_for(call, expected):
    assert reason(ASLEEP, NUMBERS[call]) == expected


def test_the_kernel_stack_decides_if_the_call_does_not():
    assert reason(0, NUMBERS["futex"]) == "waiting for a processor"
    assert reason(4, NUMBERS["read"]) == "stopped"
    assert reason(DISK, -1, frames=FAULT) == "page fault"
    assert reason(DISK, NUMBERS["read"], frames=FAULT) == "page fault"
    assert reason(DISK, NUMBERS["mmap"], frames=STORAGE) == "IO: mmap"
    assert reason(DISK, NUMBERS["read"], frames=STORAGE) == "IO: read"
    assert reason(DISK, -1, frames=STORAGE) == "IO"
    assert reason(DISK, -1) == "in the kernel"
    assert reason(ASLEEP, 500) == "system call 500"


def test_arguments_identify_file_locks_the_gil_and_devices():
    assert reason(ASLEEP, NUMBERS["fcntl"], 7) == "lock"
    assert reason(ASLEEP, NUMBERS["fcntl"], 1) == "fcntl"
    assert reason(ASLEEP, NUMBERS["futex"], gil=True) == "the GIL"
    assert reason(ASLEEP, NUMBERS["ioctl"], file="/dev/accel/accel0") == "ioctl /dev/accel/accel0"


GIL = (0x7F00_0000_1000, 0x7F00_0000_2000)
KEYS = {"none": 0, "fault": 11, "storage": 22, "not taken": 33}
# (point, pid, state, call, arg0, arg1, kernel stack, ns, reason)
ROWS = [
    (1, 9, ASLEEP, "futex", GIL[0], 128, "none", 100, "the GIL"),
    (1, 9, ASLEEP, "futex", GIL[1] - 4, 128, "not taken", 50, "the GIL"),
    (1, 9, ASLEEP, "futex", GIL[1], 128, "none", 7, "lock"),
    (1, 8, ASLEEP, "futex", GIL[0], 128, "none", 8, "lock"),
    (0, 9, 0, "", 0, 0, "none", 0, None),
    (1, 9, ASLEEP, "ioctl", 5, 3, "none", 30, "ioctl /dev/accel/accel0"),
    (1, 9, ASLEEP, "ioctl", 0xFFFF_FFFF_0000_0005, 3, "none", 30, "ioctl /dev/accel/accel0"),
    (1, 8, ASLEEP, "ioctl", 5, 3, "none", 10, "ioctl"),
    (1, 9, ASLEEP, "ioctl", 6, 3, "none", 10, "ioctl"),
    (1, 9, DISK, "", 0, 0, "fault", 20, "page fault"),
    (1, 9, DISK, "openat", 0, 0, "storage", 21, "IO: openat"),
    (1, 9, 0, "ioctl", 5, 0, "fault", 22, "waiting for a processor"),
    (1, 9, 8, "read", 0, 0, "none", 23, "stopped"),
    (1, 9, ASLEEP, "fcntl", 3, 38, "none", 24, "lock"),
]


@pytest.fixture
def recording():
    point, pid, state, call, arg0, arg1, stack, duration, _ = zip(*ROWS, strict=True)
    rows = len(ROWS)
    columns = {
        "time_ns": np.arange(rows, dtype=np.int64),
        "point": np.array(point, np.uint16),
        "pid": np.array(pid, np.int32),
        "tid": np.array(pid, np.int32),
        "state": np.array(state, np.uint32),
        "syscall": np.array([NUMBERS.get(name, -1) for name in call], np.int32),
        "arg0": np.array(arg0, np.uint64),
        "arg1": np.array(arg1, np.uint64),
        "kernel_stack": np.array([KEYS[name] for name in stack], np.uint64),
        "duration_ns": np.array(duration, np.int64),
    }
    frames = [[Frame(name, FrameKind.KERNEL) for name in names] for names in (FAULT, STORAGE)]
    points = (
        ProbePoint(0, "profile:hz:99", "profile", "cpu-clock", "99 Hz", rate_hz=99),
        ProbePoint(1, "offcpu", "offcpu", "sched", "wait", latency=True),
    )
    zeros = np.zeros(2, np.uint64)
    return Recording(
        plan=Plan(points),
        machine={},
        started="",
        start_ns=0,
        duration_ns=1000,
        hits=zeros,
        lost=zeros,
        unpaired=zeros,
        totals=zeros,
        missed=0,
        histograms=Histograms(np.zeros((1, 640), np.uint64), zeros[:1], zeros[:1]),
        samples=CounterSamples(np.zeros(1, np.int64), np.zeros((1, 2), np.uint64)),
        event_count=rows,
        limit_reached=False,
        load_events=lambda: Events({name: EventColumn(values) for name, values in columns.items()}),
        stacks=table(np.array([11, 22], np.uint64), np.zeros(2, np.uint8), frames),
        process=OwnProcess(9, GIL, ((5, "/dev/accel/accel0"),)),
    )


def test_reasons_of_a_recordings_waits_are_computed_in_bulk(recording):
    codes, texts = reasons(recording)

    assert [texts[code] for code in codes] == [row[-1] for row in ROWS if row[0] == 1]
    assert len(set(texts)) == len(texts)
    some, names = reasons(recording, np.array([9, 0]))
    assert [names[code] for code in some] == ["page fault", "the GIL"]


def test_without_stacks_or_the_process_reasons_use_the_remaining_data(recording):
    codes, texts = reasons(replace(recording, stacks=None, process=None))

    found = [texts[code] for code in codes]
    assert found[:4] == ["lock"] * 4
    assert found[4:10] == ["ioctl", "ioctl", "ioctl", "ioctl", "in the kernel", "IO: openat"]


def test_waits_are_summed_with_the_longest_first(recording):
    table = waits_table(recording, None)

    assert dict(table.dtypes.astype("str")) == WAITS
    assert set(table["where"]) == {""}  # without stacks
    frame = table.set_index("reason").drop(columns=["where", "threads"])
    assert frame.index.tolist()[0] == "the GIL"
    assert frame.loc["the GIL"].to_dict() == {"waits": 2, "total_ns": 150, "mean_ns": 75, "max_ns": 100}
    assert frame.loc["lock"].to_dict() == {"waits": 3, "total_ns": 39, "mean_ns": 13, "max_ns": 24}
    assert frame["total_ns"].sum() == sum(row[-2] for row in ROWS)
    assert frame["total_ns"].is_monotonic_decreasing


def test_the_reason_is_a_column_of_the_events(recording):
    column = wait_column(recording)["wait"]

    texts = [column.categories[code] if code >= 0 else None for code in column.values]
    assert texts == [row[-1] for row in ROWS]
    assert wait_column(replace(recording, plan=Plan(recording.plan.points[:1]))) == {}
