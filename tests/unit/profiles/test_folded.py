"""Folded stacks, read and written."""

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from accel_magic.errors import RecordingError
from accel_magic.profiles import folded
from accel_magic.profiles.model import Frame, Kind
from tests.support.errors import raises

SAMPLE = Path(__file__).parents[4] / "shared/data/sample_iaprof.folded"

TEXTS = {
    "futex_wait_[k]": Frame("futex_wait", Kind.KERNEL),
    "Interpreter_[j]": Frame("Interpreter", Kind.NATIVE, "[JIT]"),
    "memcpy_[i]": Frame("memcpy", Kind.NATIVE, "[inlined]"),
    "gemm<float, 16>_[G]": Frame("gemm<float, 16>", Kind.GPU_SOURCE),
    "_[G]": Frame("", Kind.GPU_SOURCE),
    "0x40_[g]": Frame("0x40", Kind.GPU_INSTRUCTION),
    "py::run": Frame("run", Kind.PYTHON),
    "py::run (/a b/c.py:7)": Frame("run", Kind.PYTHON, "/a b/c.py", 7),
    "py::<lambda> (cell [3]:2)": Frame("<lambda>", Kind.PYTHON, "cell [3]", 2),
    "torch::mm": Frame("torch::mm", Kind.NATIVE),
    "-": Frame("-", Kind.SEPARATOR),
    "f (int)": Frame("f (int)", Kind.NATIVE),
    "f(int%3B%25) 100%": Frame("f(int;%25) 100%".replace("%25", "%"), Kind.NATIVE),
    "": Frame("", Kind.NATIVE),
}
"""What each text means, and that it is written so again."""


@pytest.mark.parametrize(("text", "frame"), TEXTS.items(), ids=list(TEXTS))
def test_the_text_of_a_frame_tells_its_kind(text, frame):
    assert folded.frame_of(text) == frame


@pytest.mark.parametrize(("text", "frame"), [item for item in TEXTS.items() if "%25)" not in item[0]])
def test_a_frame_is_written_as_it_was_read(text, frame):
    assert folded.text_of(frame) == text


def test_frames_of_py_spy_are_python():
    assert folded.frame_of("load (/src/data.py:88)") == Frame("load", Kind.PYTHON, "/src/data.py", 88)


@given(st.lists(st.sampled_from(["a", " (", ")", ":", "7", "b.py", " ", "\n"]), max_size=8).map("".join))
@example("a (:7)")
@example("a ()")
@example("a (b.py:7) (b.py:7)")
def test_the_first_parenthesis_begins_the_place_and_the_last_colon_ends_its_file(text):
    placed = re.fullmatch(r"(.*?) \((.+):([0-9]{1,9})\)", text, re.DOTALL)
    module = re.fullmatch(r"(.*?) \((.+)\)", text, re.DOTALL)
    native = Frame(text, Kind.NATIVE)
    python = Frame(text, Kind.PYTHON)
    if placed:
        python = Frame(placed[1], Kind.PYTHON, placed[2], int(placed[3]))
    elif module:
        python = Frame(module[1], Kind.PYTHON, module[2])

    assert folded.frame_of(f"py::{text}") == python
    assert folded.frame_of(text) == (python if placed and placed[2].endswith(".py") else native)


@given(st.text())
def test_no_name_ends_a_frame_or_a_line_and_each_is_read_back(name):
    text = folded.escaped(name)

    assert not set(text) & {";", "\n", "\r"}
    assert folded.unescaped(text) == name


def test_stacks_of_the_sample_are_read_and_written_exactly():
    if not SAMPLE.exists():
        pytest.skip("the sample is not here")
    wanted = SAMPLE.read_text().splitlines()

    profile = folded.parse(SAMPLE.read_bytes())

    assert (profile.total, len(profile.samples)) == (332, 13)
    assert sorted(folded.lines(profile)) == sorted(wanted)


def sums(lines):
    """Weight of each stack, told with no code of the product."""
    weights = Counter()
    for line in lines:
        stack, _, weight = line.rpartition(" ")
        weights[stack] += int(weight)
    return weights


def test_any_profile_keeps_its_sum_and_reads_back_as_it_was_written(any_profile):
    @given(any_profile)
    def holds(profile):
        lines = list(folded.lines(profile))
        read = folded.parse("\n".join(lines).encode())
        assert sum(sums(lines).values()) == profile.total == read.total
        assert sums(folded.lines(read)).total() == profile.total
        assert folded.parse("\n".join(folded.lines(read)).encode()).frame_table().equals(read.frame_table())
        weights = Counter()
        for node, weight in enumerate(profile.own().tolist()):
            weights[";".join(map(folded.text_of, profile.path(node)))] += weight
        assert +weights == sums(lines)

    holds()


def test_equal_stacks_are_one_line_the_heaviest_first(build):
    a, b = Frame("a", Kind.NATIVE), Frame("b", Kind.NATIVE)
    wait, stall = Frame("s", Kind.STALL), Frame("s", Kind.GPU_INSTRUCTION)
    profile = build([((a,), 1), ((a, b), 2), ((a,), 3), ((a, wait), 5), ((a, stall), 6), ((b,), 0)])

    assert list(folded.lines(profile)) == ["a;s_[g] 11", "a 4", "a;b 2"]


def test_a_written_file_opens_again(tmp_path, build):
    path = folded.write(build([((Frame("a;b", Kind.NATIVE), Frame("é\n", Kind.KERNEL)), 7)]), tmp_path / "s.folded")

    assert path.read_bytes() == "a%3Bb;é%0A_[k] 7\n".encode()
    assert folded.read(path).frames == (Frame("a;b", Kind.NATIVE), Frame("é\n", Kind.KERNEL))


@pytest.mark.parametrize(
    ("data", "line", "why"),
    [
        (b"a;b 1\n\na;b\n", 3, "no whole number: 'a;b'"),
        (b"a;b 1.5\n", 1, "no whole number"),
        (b"a;b -1\n", 1, "no whole number"),
        (b"a 9223372036854775807\na 1\n", 2, "over 2^63 - 1"),
        ("a ٣\n".encode(), 1, "no whole number"),
    ],
)
def test_a_line_that_is_none_is_named(data, line, why):
    with raises("recording.damaged", RecordingError, match=f"line {line} of x") as error:
        folded.parse(data, "x")

    assert why in error.value.why


def test_blank_lines_ends_of_windows_and_foreign_bytes_do_no_harm():
    profile = folded.parse(b"a\xff;b 2\r\n\r\n  \na\xff;b 3")

    assert profile.total == 5
    assert profile.frames[0].name == "a\\xff"


def test_a_file_that_is_not_there_says_so(tmp_path):
    with raises("recording.unreadable", RecordingError):
        folded.read(tmp_path / "none")
