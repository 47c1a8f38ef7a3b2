"""Numbers of system calls, compared with the C library's header."""

import re
import subprocess

import pytest

from accel_magic.kernel.syscall_numbers import NUMBERS, number_of

# Tracepoints whose name differs from the header's constant.
TRACEPOINT_NAMES = {
    "stat": "newstat",
    "fstat": "newfstat",
    "lstat": "newlstat",
    "uname": "newuname",
    "sendfile": "sendfile64",
    "umount2": "umount",
}


@pytest.fixture(scope="module")
def header():
    source = "#include <asm/unistd_64.h>\n"
    done = subprocess.run(["gcc", "-E", "-dM", "-"], input=source, capture_output=True, text=True, check=False)
    found = dict(re.findall(r"#define __NR_(\w+) (\d+)", done.stdout))
    if not found:
        pytest.skip("there is no asm/unistd_64.h here")
    return {TRACEPOINT_NAMES.get(name, name): int(number) for name, number in found.items()}


def test_every_number_matches_the_header(header):
    common = NUMBERS.keys() & header.keys()

    assert len(common) > 300
    assert {name: NUMBERS[name] for name in common} == {name: header[name] for name in common}


def test_numbers_are_unique():
    assert len(set(NUMBERS.values())) == len(NUMBERS)
    assert max(NUMBERS.values()) < 512  # the size of the kernel program's table


@pytest.mark.parametrize(
    ("event", "number"),
    [
        ("sys_enter_read", 0),
        ("sys_exit_read", 0),
        ("sys_enter_ioctl", 16),
        ("sys_enter_getppid", 110),
        ("sys_enter_bpf", 321),
    ],
)
def test_entry_and_exit_have_the_number_of_their_call(event, number):
    assert number_of(event) == number


def test_an_unknown_call_has_no_number():
    assert number_of("sys_enter_from_the_future") is None
    assert number_of("sched_switch") is None
