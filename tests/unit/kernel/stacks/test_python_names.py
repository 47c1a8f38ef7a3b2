import gc
import marshal
import subprocess
import sys
import types
import weakref
from itertools import islice

import numpy as np
import pytest

from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.kernel.stacks.python_names import GONE, PythonNames
from accel_magic.kernel.stacks.stack_table import KERNEL, PYTHON, RawStacks

STR = [
    "plain.py",
    "straße.py",
    "файл.py",
    "😀.py",
    "lone \udc80 surrogate",
    "a" * 5000,
    "",
]


def words_of(code, instruction=0, *, first_line=None):
    line = code.co_firstlineno if first_line is None else first_line
    return [id(code), instruction & 0xFFFFFFFF | line << 32]


def in_its_first_line(code):
    """Words of the code at its first instruction that has a line: the start of a module has none."""
    return words_of(code, next(start for start, _, line in code.co_lines() if line))


def raw_of(words, kind=PYTHON):
    """One Python stack with these words, and one kernel stack."""
    both = np.array([*words, 0xFFFFFFFF81000000, 0xFFFFFFFF82000000, 7], np.uint64)
    return RawStacks(
        np.array([3, 5], np.uint64),
        np.array([kind, KERNEL], np.uint8),
        np.array([0, len(words), len(both)], np.int64),
        both,
    )


def test_names_files_and_lines_agree_with_python():
    codes = {each.__code__ for each in gc.get_objects() if isinstance(each, types.FunctionType)}
    names = PythonNames()
    for code in islice(codes, 400):
        lines = [line for line, *_ in code.co_positions()]
        words = [word for at in range(len(lines)) for word in words_of(code, 2 * at)]
        assert names.frames(np.array(words, np.uint64)) == [
            Frame(code.co_qualname, FrameKind.PYTHON, code.co_filename, line or 0) for line in lines
        ]


@pytest.mark.parametrize("intern", [False, True])
@pytest.mark.parametrize("text", STR)
def test_strings_of_every_kind_are_read(text, intern):
    chosen = sys.intern(text) if intern else text[:2] + text[2:]
    code = compile("x", "", "exec").replace(co_filename=chosen, co_qualname=chosen)
    assert PythonNames().frames(in_its_first_line(code)) == [Frame(text, FrameKind.PYTHON, text, 1)]


def test_a_function_being_entered_is_at_its_first_line():
    code = test_a_function_being_entered_is_at_its_first_line.__code__
    assert PythonNames().frames(words_of(code, -2))[0].line == code.co_firstlineno


def test_frames_keep_their_order_and_truncated_stacks_are_marked():
    inner, outer = raw_of.__code__, words_of.__code__
    frames = PythonNames().frames([*words_of(inner), *words_of(outer), 0, 1])
    assert [frame.name for frame in frames] == ["raw_of", "words_of", "[callers beyond 127 frames]"]
    assert PythonNames().frames([0, 2])[0].name == "[callers in memory that cannot be read]"


def test_an_address_without_a_matching_code_object_is_gone():
    code = raw_of.__code__
    assert PythonNames().frames(words_of(code, first_line=code.co_firstlineno + 1)) == [GONE]
    assert PythonNames().frames([id([]), 0, 8, 0, 1 << 46, 0, id(raw_of), 0]) == [GONE] * 4


def test_freed_code_is_gone_unless_its_name_was_read_before():
    names, other = PythonNames(), PythonNames()
    made = [compile("\n" * line + "def f(): pass", f"file {line}", "exec").co_consts[0] for line in range(50)]
    words = [word for code in made for word in words_of(code)]
    names.learn(raw_of(words))
    del made
    gc.collect()
    assert [frame.module for frame in names.frames(words)] == [f"file {line}" for line in range(50)]
    assert other.frames(words).count(GONE) == 50


def test_code_executed_once_is_kept_while_names_are_collected():
    names = PythonNames()
    code = compile("x = 1", "cell", "exec")
    there, words = weakref.ref(code), in_its_first_line(code)
    exec(code, {})
    del code
    gc.collect()
    assert names.frames(words) == [Frame("<module>", FrameKind.PYTHON, "cell", 1)]
    del names
    gc.collect()
    assert there() is None


def test_code_of_an_unpickled_function_is_kept_while_names_are_collected():
    names = PythonNames()
    code = marshal.loads(marshal.dumps(raw_of.__code__))
    there, words = weakref.ref(code), in_its_first_line(code)
    types.FunctionType(code, {})
    del code
    gc.collect()
    (frame,) = names.frames(words)
    assert (frame.name, frame.module) == ("raw_of", __file__)
    del names
    gc.collect()
    assert there() is None


ENDING = """
import os, sys
from accel_magic.kernel.stacks import python_names

class Last:
    def __del__(self, execute=exec, write=os.write):
        execute("write(1, b'executed')", {"write": write})

sys.last, sys.kept = Last(), python_names  # Python clears modules that are still in use, and then sys
python_names.PythonNames()
"""


def test_code_that_is_executed_when_python_has_cleared_its_modules_is_no_error():
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("executed", "")
