"""The kernel's opinion of the wall clock, compared with a C program's."""

import ctypes
import shutil
import subprocess
import time

import pytest

from accel_magic.cluster import adjtimex
from accel_magic.cluster.adjtimex import Synchronization, Timex, synchronization

NAMES = {"seconds": "time.tv_sec", "microseconds": "time.tv_usec"}
FIELDS = [name for name, _ in Timex._fields_ if name != "reserved"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Prints the layout of struct timex, then what adjtimex returns, maxerror, esterror and status."""
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    folder = tmp_path_factory.mktemp("adjtimex")
    offsets = "\n".join(f'printf("%zu ", offsetof(struct timex, {NAMES.get(name, name)}));' for name in FIELDS)
    (folder / "timex.c").write_text(
        f"""
#include <stddef.h>
#include <stdio.h>
#include <sys/timex.h>
int main(void) {{
    struct timex now = {{0}};
    int state = adjtimex(&now);
    {offsets}
    printf("%zu\\n%d %ld %ld %d\\n", sizeof now, state, now.maxerror, now.esterror, now.status);
}}
"""
    )
    subprocess.run(["gcc", "-o", folder / "timex", folder / "timex.c"], check=True)

    def run():
        return subprocess.run([folder / "timex"], capture_output=True, check=True, text=True).stdout.splitlines()

    return run


def test_the_structure_is_that_of_the_c_library(program):
    layout = [getattr(Timex, name).offset for name in FIELDS] + [ctypes.sizeof(Timex)]

    assert [int(number) for number in program()[0].split()] == layout


def test_the_kernel_states_the_same_to_a_c_program(program):
    deadline = time.monotonic() + 60
    while True:
        before, found, after = program()[1], synchronization(), program()[1]
        if before == after:  # the kernel raises maxerror once a second
            break
        assert time.monotonic() < deadline

    state, most, estimate, status = map(int, before.split())
    assert found == Synchronization(state != 5 and not status & 0x40, estimate * 1000, most * 1000)


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        (0, 0x2001, Synchronization(synchronized=True, estimated_error_ns=40_000, max_error_ns=700_000)),
        (5, 0x2041, Synchronization(estimated_error_ns=40_000, max_error_ns=700_000)),
        (0, 0x2040, Synchronization(estimated_error_ns=40_000, max_error_ns=700_000)),
        (-1, 0, Synchronization()),  # a container's seccomp filter
    ],
)
def test_only_a_synchronized_clock_counts_as_one(monkeypatch, state, status, expected):
    class Kernel:
        def adjtimex(self, argument):
            answer = argument._obj
            assert answer.modes == 0
            answer.status, answer.maxerror, answer.esterror = status, 700, 40
            return state

    monkeypatch.setattr(adjtimex.ctypes, "CDLL", lambda _: Kernel())

    assert synchronization() == expected
