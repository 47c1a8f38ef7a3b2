"""Reading and writing folded stacks."""

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import accel_magic
from accel_magic.errors import RecordingError
from accel_magic.formats import folded
from accel_magic.kernel.stacks import frame_text
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from tests.support.errors import raises
from tests.support.paths import ROOT

SAMPLE = ROOT.parent / "shared/data/sample_iaprof.folded"

TEXTS = {
    "futex_wait_[k]": Frame("futex_wait", FrameKind.KERNEL),
    "Interpreter_[j]": Frame("Interpreter", FrameKind.NATIVE, "[JIT]"),
    "memcpy_[i]": Frame("memcpy", FrameKind.NATIVE, "[inlined]"),
    "gemm<float, 16>_[G]": Frame("gemm<float, 16>", FrameKind.GPU_SOURCE),
    "_[G]": Frame("", FrameKind.GPU_SOURCE),
    "0x40_[g]": Frame("0x40", FrameKind.GPU_INSTRUCTION),
    "py::run": Frame("run", FrameKind.PYTHON),
    "py::run (/a b/c.py:7)": Frame("run", FrameKind.PYTHON, "/a b/c.py", 7),
    "py::<lambda> (cell [3]:2)": Frame("<lambda>", FrameKind.PYTHON, "cell [3]", 2),
    "torch::mm": Frame("torch::mm", FrameKind.NATIVE),
    "-": Frame("-", FrameKind.SEPARATOR),
    "f (int)": Frame("f (int)", FrameKind.NATIVE),
    "f(int%3B%25) 100%": Frame("f(int;%25) 100%".replace("%25", "%"), FrameKind.NATIVE),
    "": Frame("", FrameKind.NATIVE),
}
"""The frame of each text, and the text of each frame."""


@pytest.mark.parametrize(("text", "frame"), TEXTS.items(), ids=list(TEXTS))
def test_the_text_of_a_frame_determines_its_kind(text, frame):
    assert frame_text.frame_of(text) == frame


@pytest.mark.parametrize(("text", "frame"), [item for item in TEXTS.items() if "%25)" not in item[0]])
def test_a_frame_is_written_with_the_text_it_was_read_from(text, frame):
    assert frame_text.text_of(frame) == text


def test_frames_of_py_spy_are_python():
    assert frame_text.frame_of("load (/src/data.py:88)") == Frame("load", FrameKind.PYTHON, "/src/data.py", 88)


@given(st.lists(st.sampled_from(["a", " (", ")", ":", "7", "b.py", " ", "\n"]), max_size=8).map("".join))
@example("a (:7)")
@example("a ()")
@example("a (b.py:7) (b.py:7)")
def test_the_place_starts_at_the_first_parenthesis_and_its_file_ends_at_the_last_colon(text):
    placed = re.fullmatch(r"(.*?) \((.+):([0-9]{1,9})\)", text, re.DOTALL)
    module = re.fullmatch(r"(.*?) \((.+)\)", text, re.DOTALL)
    native = Frame(text, FrameKind.NATIVE)
    python = Frame(text, FrameKind.PYTHON)
    if placed:
        python = Frame(placed[1], FrameKind.PYTHON, placed[2], int(placed[3]))
    elif module:
        python = Frame(module[1], FrameKind.PYTHON, module[2])

    assert frame_text.frame_of(f"py::{text}") == python
    assert frame_text.frame_of(text) == (python if placed and placed[2].endswith(".py") else native)


@given(st.text())
def test_escaped_names_contain_no_separators_and_are_read_back(name):
    text = frame_text.escaped(name)

    assert not set(text) & {";", "\n", "\r"}
    assert frame_text.unescaped(text) == name


def test_stacks_of_the_sample_are_read_and_written_exactly():
    if not SAMPLE.exists():
        pytest.skip("the sample is missing")
    wanted = SAMPLE.read_text().splitlines()

    profile = folded.parse(SAMPLE.read_bytes())

    assert (profile.total, len(profile.samples)) == (332, 13)
    assert sorted(folded.lines(profile)) == sorted(wanted)


def sums(lines):
    """Weight of each stack, computed without the code under test."""
    weights = Counter()
    for line in lines:
        stack, _, weight = line.rpartition(" ")
        weights[stack] += int(weight)
    return weights


def test_any_profile_keeps_its_sum_and_is_read_back_as_written(any_profile):
    @given(any_profile)
    def holds(profile):
        lines = list(folded.lines(profile))
        read = folded.parse("\n".join(lines).encode())
        assert sum(sums(lines).values()) == profile.total == read.total
        assert sums(folded.lines(read)).total() == profile.total
        assert folded.parse("\n".join(folded.lines(read)).encode()).frame_table().equals(read.frame_table())
        weights = Counter()
        for node, weight in enumerate(profile.own().tolist()):
            stack = ";".join(map(frame_text.text_of, profile.path(node)))
            # A line that begins with # would be a comment.
            weights[re.sub("^(?:#|%(?=23))", lambda sign: "%23" if sign[0] == "#" else "%25", stack)] += weight
        assert +weights == sums(lines)

    holds()


def test_equal_stacks_are_merged_into_one_line_and_the_heaviest_comes_first(build):
    a, b = Frame("a", FrameKind.NATIVE), Frame("b", FrameKind.NATIVE)
    wait, stall = Frame("s", FrameKind.STALL), Frame("s", FrameKind.GPU_INSTRUCTION)
    profile = build([((a,), 1), ((a, b), 2), ((a,), 3), ((a, wait), 5), ((a, stall), 6), ((b,), 0)])

    assert list(folded.lines(profile)) == ["a;s_[g] 11", "a 4", "a;b 2"]


def test_a_written_file_opens_again(tmp_path, build):
    path = folded.write(
        build([((Frame("a;b", FrameKind.NATIVE), Frame("é\n", FrameKind.KERNEL)), 7)]), tmp_path / "s.folded"
    )

    assert path.read_bytes() == "a%3Bb;é%0A_[k] 7\n".encode()
    assert folded.read(path).frames == (Frame("a;b", FrameKind.NATIVE), Frame("é\n", FrameKind.KERNEL))


@pytest.mark.parametrize(
    ("data", "line", "why"),
    [
        (b"a;b 1\n\na;b\n", 3, "integer: 'a;b'"),
        (b"a;b 1.5\n", 1, "integer"),
        (b"a;b -1\n", 1, "integer"),
        (b"a 9223372036854775807\na 1\n", 2, "over 2^63 - 1"),
        ("a ٣\n".encode(), 1, "integer"),
    ],
)
def test_an_invalid_line_is_named(data, line, why):
    with raises("recording.damaged", RecordingError, match=f"line {line} of x") as error:
        folded.parse(data, "x")

    assert why in error.value.why


def test_lines_that_begin_with_a_hash_are_comments_except_stacks_of_a_task_with_such_a_name():
    # As Austin writes it; the weights of the stacks are 3, 4 and 5.
    data = b"# mode: wall\n# interval: 100\n#\nmain;load 3\n#1;run 4\nmain 5\n# duration: 23873\n"

    profile = folded.parse(data)

    assert profile.total == (3 + 4 + 5) * 1000
    assert {frame.name for frame in profile.frames} == {"main", "load", "#1", "run"}
    assert profile.notes == ("4 comments (lines that begin with #) were skipped",)


def test_austins_weights_have_its_unit():
    text = "# austin: 3.7.0\n# interval: 1000\n# mode: {}\n\nP1;T0:1;a.py:busy:4 29476\nP1;T0:1;a.py:idle:5 524\n"
    wall, cpu, memory = (folded.parse(text.format(mode).encode()) for mode in ("wall", "cpu", "memory"))

    assert (wall.total, wall.unit) == (cpu.total, cpu.unit) == (30_000_000, "ns")
    assert (memory.total, memory.unit) == (30_000, "bytes")
    assert folded.parse(b"# mode: wall\na;b 3\n").unit == "samples"  # another tool's


AUSTIN = """
import sys, time
end = time.process_time() + 1
while time.process_time() < end:
    sum(range(200))
print(time.process_time())
"""


@pytest.mark.skipif(not shutil.which("austin"), reason="austin is not installed")
def test_a_profile_of_austin_has_the_time_of_the_program(tmp_path):
    path = tmp_path / "austin.txt"
    python = Path(sys.executable).resolve()
    command = ["austin", "-s", "-i", "1ms", "-o", path, python, "-S", "-c", AUSTIN]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    spent_ns = float(re.search(r"^\d+\.\d+$", done.stdout, re.MULTILINE)[0]) * 1e9
    profile = folded.read(path)
    assert profile.unit == "ns"
    assert 0.3 * spent_ns < profile.total < 30 * spent_ns  # a unit is a factor of 1,000


@pytest.mark.parametrize("name", ["#", "# a", "#a", "%23a", "%2523", "# a; 5", "a 5", "thread 7", "%20 8", "a%209"])
def test_names_that_look_like_comments_or_weights_are_read_back(build, name):
    for frames in ((Frame(name, FrameKind.NATIVE),), (Frame(name, FrameKind.NATIVE), Frame(name, FrameKind.NATIVE))):
        text = "\n".join(folded.lines(build([(frames, 6)]))) + "\n"

        read = folded.parse(text.encode())

        assert read.total == 6
        assert read.notes == ()
        assert [frame.name for frame in read.path(int(read.samples.stack[0]))] == [name] * len(frames)


@pytest.mark.parametrize("data", [b"main;load 31 56\nmain;store 6 2\nidle 274 415\n", b"# odd\r\na;b 0 7\r\n"])
def test_two_weights_are_not_read_as_names(data):
    with raises("import.several-weights", RecordingError, match="x compares two profiles"):
        folded.parse(data, "x")


def test_several_metrics_are_an_error_whose_fix_keeps_the_first(tmp_path):
    path = tmp_path / "full output.txt"
    path.write_text("# mode: full\n\nP1;T0:1;f:g:3 2566,0,667648\nP1;T0:1;f:g:4 100,1,-4096\n")

    with raises("import.several-weights", RecordingError, match="several weights") as error:
        accel_magic.open(path)

    command = error.value.fix.partition(": ")[2]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert accel_magic.open(tmp_path / "first.folded").total == 2566 + 100


def test_stacks_of_py_spy_may_be_empty(tmp_path):
    path = tmp_path / "raw.txt"
    path.write_text("<module> (work.py:9);outer (work.py:5) 30\n 5\n<module> (work.py:9) 2\n")

    assert accel_magic.open(path).total == 30 + 5 + 2


def test_a_name_that_ends_in_a_number_is_kept_if_other_stacks_have_one_weight():
    profile = folded.parse(b"main;thread 1 10\nmain;thread 2 20\nmain 5\n")

    assert profile.total == 35
    assert {frame.name for frame in profile.frames} == {"main", "thread 1", "thread 2"}


@pytest.mark.parametrize(
    ("end", "total", "note"),
    [
        (b"a;c 15", 3_015, "may be truncated: a;c 15"),
        (b"a;c", 3_000, "was dropped: a;c"),
        (b"a;", 3_000, "was dropped: a;"),
        (b"# a", 3_000, ""),
        (b"a;c 15\n", 3_015, ""),
    ],
)
def test_a_last_line_that_may_be_truncated_is_reported(end, total, note):
    profile = folded.parse(b"a;b 1500\n" * 2 + end)

    about = [each for each in profile.notes if "comment" not in each]
    assert profile.total == total
    assert [note in each for each in about] == [True] * bool(note)


def test_only_comments_are_an_error_that_says_so():
    with raises("recording.empty", RecordingError, match="x contains no stacks") as error:
        folded.parse(b"# words\n# more words\n", "x")

    assert "comments" in error.value.why


def test_blank_lines_windows_line_ends_and_invalid_bytes_are_accepted():
    profile = folded.parse(b"a\xff;b 2\r\n\r\n  \na\xff;b 3")

    assert profile.total == 5
    assert profile.frames[0].name == "a\\xff"


def test_a_missing_file_is_an_error(tmp_path):
    with raises("recording.unreadable", RecordingError):
        folded.read(tmp_path / "none")
