"""Native stacks of processes that ended before anyone could look at them."""

import ctypes
import os
import subprocess
import sys

import pytest

import accel_magic
from tests.support import fresh_python

pytestmark = pytest.mark.live

SHORT = """
#include <stdlib.h>
#define KEEP __attribute__((noinline, noclone))
static void *volatile sink;
KEEP void inner(void) { sink = malloc(123457); __asm__ volatile(""); }
KEEP void outer(void) { inner(); __asm__ volatile(""); }
int main(void) { for (int i = 0; i < 3; i++) outer(); return 0; }
"""


@pytest.fixture
def short(tmp_path):
    """A program that calls malloc three times and ends at once."""
    (tmp_path / "short.c").write_text(SHORT)
    flags = ("-O1", "-fno-omit-frame-pointer")
    subprocess.run(["gcc", *flags, "-o", tmp_path / "short", tmp_path / "short.c"], check=True)
    return tmp_path / "short"


@pytest.mark.parametrize("before", [(), ("env",), ("sh", "-c", "$0; exec $0"), ("setarch", "-R")])
def test_native_frames_of_a_command_that_ends_at_once_have_names(short, tmp_path, before):
    command = [sys.executable, "-m", "accel_magic", "trace", "uprobe:libc:malloc", "--filter", "arg0 == 123457"]
    command += ["--stacks=user", "--save", tmp_path / "t.parquet", "--", *before, short]
    fresh_python.run(command, check=True)
    result = accel_magic.open(tmp_path / "t.parquet")
    assert result.hits == (6 if before[:1] == ("sh",) else 3)
    assert {tuple(text.split(";")[-4:]) for text in result.stacks["text"]} == {("main", "outer", "inner", "malloc")}
    assert result.recording.notes == ()


def test_native_frames_of_children_that_end_at_once_have_names(short):
    libc = ctypes.CDLL(None)
    with accel_magic.trace("uprobe:libc:malloc", filter="arg0 == 123457", stacks="user", uprobes="kernel") as trace:
        for _ in range(20):
            subprocess.run([short], check=True)
        child = os.fork()
        if not child:
            libc.malloc(123457)
            os._exit(0)
        os.waitpid(child, 0)
    table = trace.result.stacks
    assert table["hits"].sum() == 61
    assert not table["text"].str.contains("process gone").any()
    assert table.loc[table["text"].str.endswith("main;outer;inner;malloc"), "hits"].sum() == 60
