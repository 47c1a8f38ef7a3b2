"""Detecting from machine code whether it keeps frame pointers."""

import os
import subprocess

import numpy as np

from accel_magic.kernel.stacks import stack_table
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.symbols.frame_pointers import frame_pointers, kept_share, why_short
from accel_magic.kernel.symbols.resolving import notes

# Every function calls another: compilers omit frames in leaf functions.
MANY = "int shared;\nvoid touch(int *);\n" + "\n".join(
    f"""
int f{at}(int a, int b) {{ for (int i = 0; i < a; i++) touch(&a), shared += i * {at} + a; return shared % (b + {at}); }}
int g{at}(int a) {{ int s = 0; for (int i = 0; i < a; i++) s += f{at}(i, a) * f{at}(s, i); return s + f{at}(s, a); }}
"""
    for at in range(1, 21)
)


def test_libraries_with_and_without_frame_pointers_are_distinguished(compiled, tmp_path):
    kept = compiled(MANY, "kept", "-O2", "-fno-omit-frame-pointer", "-fno-inline")
    without = compiled(MANY, "without", "-O2", "-fomit-frame-pointer", "-fno-inline")
    assert kept_share(kept) > 0.6
    assert kept_share(without) < 0.1

    subprocess.run(["objcopy", "--strip-all", kept, tmp_path / "stripped.so"], check=True)
    assert kept_share(tmp_path / "stripped.so") > 0.6
    (tmp_path / "text.so").write_text("no library")
    assert kept_share(tmp_path / "text.so") is None
    assert kept_share(tmp_path / "nowhere.so") is None


def test_the_interpreter_is_judged_by_its_machine_code():
    kept, why = frame_pointers()
    assert why.startswith(("python", "libpython"))
    assert ("do not keep" in why) is (not kept)


def native(*stacks_):
    rows = [tuple(Frame(name, FrameKind.NATIVE, module) for name, module in stack) for stack in stacks_]
    return stack_table.table(
        np.arange(1, len(rows) + 1, dtype=np.uint64), np.full(len(rows), stack_table.USER, np.uint8), rows
    )


def test_the_reason_names_the_library_where_stacks_end(compiled):
    without = str(compiled(MANY, "without", "-O2", "-fomit-frame-pointer", "-fno-inline"))
    whole = [("__libc_start_call_main", "/lib/libc.so.6"), ("main", "/bin/program")]
    short = [("f1", without), ("g1", without)]
    assert why_short(native(whole, whole)) == ""
    assert why_short(native()) == ""
    assert why_short(native(whole, short, short)) == (
        "2 of 3 native stacks do not reach the start of their thread: without.so was built without frame pointers"
    )
    assert why_short(native(whole, [("[callers beyond 127 frames]", ""), ("f1", without), ("g1", without)])) == ""
    unknown = [("f", "/nowhere/libgone.so")]
    assert why_short(native(unknown)).endswith("some of the code does not keep frame pointers")


def test_runtimes_that_can_name_their_compiled_code_are_told_how():
    begin, compiled = ("__libc_start_call_main", "/lib/libc.so.6"), ("[compiled code]", "")
    node, other = ("main", "/opt/node/bin/node"), ("main", "/bin/other")
    assert notes(native([begin, node, compiled, compiled], [begin, node])) == (
        "1 of 2 native stacks have code without names ([compiled code]); node --perf-basic-prof names it",
    )
    assert notes(native([begin, node])) == ()
    assert notes(native([begin, other, compiled])) == ()


def test_special_files_are_neither_read_nor_block(ends, tmp_path):
    os.mkfifo(tmp_path / "fifo.so")
    found = []
    ended = ends(lambda: found.append(kept_share(tmp_path / "fifo.so")))
    os.close(os.open(tmp_path / "fifo.so", os.O_RDWR))
    assert ended
    assert found == [None]
