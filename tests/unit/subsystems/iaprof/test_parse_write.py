import io
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel_magic.errors import RecordingError
from accel_magic.formats import folded
from accel_magic.kernel.stacks.frames import FrameKind
from accel_magic.recording.profile import ThreadState
from accel_magic.subsystems.iaprof import parse
from accel_magic.subsystems.iaprof.parse import read
from accel_magic.subsystems.iaprof.profile import REASONS, LaunchedKernel
from accel_magic.subsystems.iaprof.write import write
from tests.support.errors import raises

LARGEST = 2**63 - 1
ZEROS = "\t".join("0" * 10)
HEAD = ["string\t1\tpy", "interval\t0\t5.000000", "kernel\t0x100\t1\t7\t0\t0\t0", "string\t2\tsend"]
STALL = "eustall\t0x40\t2\t1" + "\t0" * 9


def of_text(text, errors="strict"):
    return read(io.BytesIO(text.encode() if isinstance(text, str) else text), errors)


def of_lines(*lines, errors="strict"):
    return of_text("".join(f"{line}\n" for line in lines), errors)


def folded_of(profile):
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in folded.lines(profile)}


def test_the_sample_has_13_folded_stacks_and_332_samples(iaprof_sample, folded_sample):
    profile = of_text(iaprof_sample)

    assert profile.total == 332
    assert folded_of(profile.profile()) == folded_sample
    assert profile.by_reason == (8, 1, 2, 227, 4, 69, 6, 7, 8, 0)


def test_frames_of_a_stack_have_their_kinds_and_samples_their_intervals(iaprof_sample):
    profile = of_text(iaprof_sample).profile()
    deepest = profile.path(int(profile.samples.stack[0]))

    assert [frame.kind for frame in deepest] == [
        FrameKind.PROCESS, FrameKind.PROCESS, FrameKind.NATIVE, FrameKind.NATIVE, FrameKind.PYTHON,
        FrameKind.NATIVE, FrameKind.NATIVE, FrameKind.SEPARATOR,
        FrameKind.GPU_SOURCE, FrameKind.GPU_KERNEL, FrameKind.GPU_INSTRUCTION, FrameKind.STALL,
        FrameKind.GPU_INSTRUCTION,
    ]  # fmt: skip
    # The first interval gets the length of the shortest other, 10.027 ms; the third begins at the end of the second.
    assert sorted(set(profile.samples.time_ns.tolist())) == [0, 20_054_000]
    assert profile.duration_ns == 30_081_000
    assert set(profile.samples.state.tolist()) == {ThreadState.ACCELERATOR}
    assert profile.unit == "samples"


def test_function_names_written_by_cpython_for_native_profilers_include_the_file():
    kernel = ["string\t1\tmain;py::fit.<locals>.step:/home/me/train.py;py::<module>:<string>;py::run"]
    profile = of_lines(*kernel, "interval\t0\t5.0", "kernel\t0x1\t0\t7\t1\t0\t0", "eustall\t0x0\t0" + "\t1" * 10)
    made = profile.profile()

    python = [frame for frame in made.path(int(made.samples.stack[0])) if frame.kind == FrameKind.PYTHON]
    assert [(frame.name, frame.module) for frame in python] == [
        ("fit.<locals>.step", "/home/me/train.py"),
        ("<module>", "<string>"),
        ("run", ""),
    ]


def test_tables_contain_each_record(iaprof_sample):
    profile = of_text(iaprof_sample)

    rows = profile.samples
    assert rows[["interval", "offset", "instruction", "active", "send", "sbid", "total"]].values.tolist() == [
        [0, 0x40, "dpas", 5, 30, 50, 113],
        [0, 0x80, "send", 0, 120, 10, 130],
        [2, 0x80, "send", 3, 77, 0, 80],
        [2, 0x10, "[failed decode]", 0, 0, 9, 9],
    ]
    assert rows["time_ns"].tolist() == [0, 0, 20_054_000, 20_054_000]
    long = profile.reasons
    assert (len(long), int(long["samples"].sum())) == (14, 332)
    assert long.groupby("reason", observed=True)["samples"].sum()["send"] == 227
    intervals = profile.interval_table
    assert intervals["end_ns"].tolist() == [1_000_010_123_000, 1_000_020_150_000, 1_000_030_177_000]
    assert intervals[["samples", "active", "stalled"]].values.tolist() == [[243, 5, 238], [0, 0, 0], [89, 3, 86]]
    assert intervals["frequency_MHz"].tolist() == [2400, 600, 2350]
    assert intervals["busy_percent"].tolist() == [87, 0, 64]
    assert profile.metric_table[["interval", "name", "value"]].values.tolist()[:2] == [
        [0, "frequency-MHz", 2400],
        [0, "busy-percent", 87],
    ]
    kernels = profile.kernel_table
    assert kernels[["symbol", "file", "pid", "samples", "intervals"]].values.tolist() == [
        ["gemm_kernel<float, 16>", "gemm.cpp", 4242, 323, 2],
        ["", "", 4242, 9, 1],
    ]


def test_a_metric_that_an_interval_lacks_is_not_available():
    table = of_lines("interval\t0\t5.000000", "metric\tbusy-percent\t3", "interval\t1\t6.000000").interval_table

    assert table["busy_percent"].isna().tolist() == [False, True]
    assert table["frequency_MHz"].isna().all()


@pytest.mark.parametrize(
    ("lines", "number", "why"),
    [
        ([*HEAD, "eustal\t0x40"], 5, "unknown tag: 'eustal'"),
        ([*HEAD, ""], 5, "unknown tag: ''"),
        (["string\t1\tpy", "interval_start\t0\t5.000000"], 2, "format of iaprof 0.5 or older"),
        ([*HEAD, "eustall\t0x40\t2\t1"], 5, "wrong number of fields: `eustall` needs 13 fields but has 4"),
        ([*HEAD, STALL + "\t0"], 5, "wrong number of fields"),
        ([*HEAD, "eustall"], 5, "wrong number of fields"),
        ([*HEAD, STALL.replace("\t1\t", "\tx\t")], 5, "not a number: 'x'"),
        ([*HEAD, STALL.replace("\t1\t", "\t\t")], 5, "not a number: ''"),
        ([*HEAD, STALL.replace("\t1\t", "\t+1\t")], 5, "not a number"),
        ([*HEAD, STALL.replace("\t1\t", "\t 1\t")], 5, "not a number"),
        ([*HEAD, STALL.replace("\t1\t", "\t1.5\t")], 5, "not a number"),
        ([*HEAD, STALL.replace("\t1\t", "\t-1\t")], 5, "negative number: '-1'"),
        ([*HEAD, STALL.replace("\t1\t", f"\t{LARGEST + 1}\t")], 5, "number too large"),
        ([*HEAD, STALL.replace("\t1\t", f"\t{'9' * 400}\t")], 5, "number too large"),
        ([*HEAD, STALL.replace("0x40", "40")], 5, "not a number: '40'"),
        ([*HEAD, STALL.replace("0x40", "0x")], 5, "not a number"),
        ([*HEAD, STALL.replace("0x40", "0y40")], 5, "not a number"),
        ([*HEAD, STALL.replace("0x40", "0x4g")], 5, "not a number"),
        ([*HEAD, STALL.replace("0x40", "0x1" + "0" * 16)], 5, "number too large"),
        ([*HEAD, STALL.replace("\t2\t", "\t3\t")], 5, "unknown string id: 3"),
        ([*HEAD[:3], STALL, HEAD[3]], 4, "unknown string id: 2"),
        ([*HEAD[:2], HEAD[3], STALL], 4, "no kernel before it"),
        ([*HEAD, "interval\t1\t6.000000", STALL], 6, "no kernel before it"),
        ([HEAD[0], HEAD[2]], 2, "no interval before it: `kernel`"),
        (["metric\tbusy-percent\t1"], 1, "no interval before it: `metric`"),
        ([*HEAD, "string\t2\tload"], 5, "string id defined twice: 2 is 'send' and 'load'"),
        ([*HEAD, "string\t0\tload"], 5, "string id 0 is defined"),
        ([*HEAD, "string\t3\ta\tb"], 5, "wrong number of fields"),
        ([*HEAD, "kernel\t0x100\t9\t7\t0\t0\t0"], 5, "unknown string id: 9"),
        ([*HEAD, f"kernel\t0x100\t1\t{2**32}\t0\t0\t0"], 5, "number too large"),
        ([*HEAD, "interval\t0\t6.000000"], 5, "interval goes back"),
        ([*HEAD, "interval\t1\t4.999999"], 5, "interval goes back"),
        ([*HEAD, "interval\t1\t6.0.0"], 5, "not a number"),
        ([*HEAD, "interval\t1\tnan"], 5, "not a number"),
        ([*HEAD, f"interval\t1\t{2**32}.000000001"], 5, "number too large"),
        ([*HEAD, "interval\t1\t9999999999"], 5, "number too large"),
        ([*HEAD, "metric\ttemperature\t60"], 5, "unknown metric: 'temperature'"),
        ([*HEAD, "metric\tbusy-percent\t-3"], 5, "negative number"),
        ([*HEAD, "\udcff"], 5, "unknown tag"),
    ],
)
def test_every_kind_of_damage_is_named_with_its_line(lines, number, why):
    data = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")

    with raises("recording.damaged", RecordingError, match=f"^line {number} of this stream") as raised:
        of_text(data)

    assert why in raised.value.why
    assert "skip" in raised.value.fix


def test_the_first_damaged_line_is_named_whatever_its_kind():
    late_stall = [*HEAD, "kernel\t0x1", STALL.replace("\t1\t", "\tx\t")]
    early_stall = [*HEAD, STALL, STALL.replace("\t1\t", "\tx\t"), STALL, "kernel\t0x1", "nothing"]

    for lines, number in ((late_stall, 5), (early_stall, 6)):
        with raises("recording.damaged", RecordingError, match=f"^line {number} "):
            of_lines(*lines)


def test_a_truncated_file_is_damaged_and_an_empty_one_is_rejected():
    with raises("recording.damaged", RecordingError, match="line 5 ") as raised:
        of_text("\n".join([*HEAD, STALL]))
    assert "ends in the middle" in raised.value.why
    with raises("recording.empty", RecordingError):
        of_text("")


def test_counts_are_exact_up_to_the_largest_sum_and_rejected_beyond():
    kept = of_lines(*HEAD, STALL.replace("\t1\t", f"\t{LARGEST - 1}\t"), STALL)
    assert kept.total == LARGEST == kept.profile().total
    assert folded_of(kept.profile()) == {"py;7;-;_[G];_[G];send_[g];active_[g];0x40_[g]": LARGEST}

    with raises("recording.overflow", RecordingError, match="line 6 ") as raised:
        of_lines(*HEAD, STALL.replace("\t1\t", f"\t{LARGEST}\t"), STALL)
    assert "2^63 - 1" in raised.value.why


def test_the_latest_allowed_time_is_exact():
    profile = of_lines("interval\t0\t0.000000", f"interval\t1\t{2**32}", "kernel\t0x1" + "\t0" * 5)

    assert profile.intervals.start_ns.tolist() == [0, 2**32 * 10**9]
    assert profile.profile().duration_ns == 2 * 2**32 * 10**9


def test_skipping_drops_damaged_lines_and_their_dependents_and_counts_them_by_reason():
    profile = of_lines(
        *HEAD,
        STALL,  # kept
        STALL.replace("\t1\t", "\t-1\t"),
        "kernel\t0x200\t99\t7\t0\t0\t0",
        STALL,  # belongs to the damaged kernel, not to the first one
        STALL,
        "metric\tbusy-percent\t50",
        "kernel\t0x100\t1\t7\t0\t0\t0",
        STALL,  # kept
        "kernl\t0x300\t1\t7\t0\t0\t0",
        STALL,  # may belong to the damaged kernel
        "kernel\t0x100\t1\t7\t0\t0\t0",
        "interval\t0\t6.000000",
        STALL,
        "kernel\t0x100\t1\t7\t0\t0\t0",
        "interval\t2\t7.000000",
        "kernel\t0x100\t1\t7\t0\t0\t0",
        STALL.replace("\t1\t", "\t41\t"),  # kept
        errors="skip",
    )

    assert profile.total == 43
    assert profile.intervals.number.tolist() == [0, 2]
    assert profile.metrics.value.tolist() == [50]
    assert profile.dropped == {
        "negative number": 1,
        "unknown string id": 1,
        "its kernel was dropped": 4,
        "unknown tag": 1,
        "interval goes back": 1,
        "its interval was dropped": 1,
    }
    assert sum(lost.count for lost in profile.profile().lost) == 9


def test_skipping_changes_nothing_in_a_valid_profile_and_survives_any_bytes(iaprof_sample):
    assert of_text(iaprof_sample, "skip") == of_text(iaprof_sample)
    assert not of_text(iaprof_sample, "skip").dropped

    noise = np.random.default_rng(4).integers(0, 256, 100_000, np.uint8).tobytes()
    assert of_text(noise, "skip").total == 0
    assert of_text(iaprof_sample.encode() + noise, "skip").total == 332


def test_texts_that_are_not_utf8_are_escaped_with_a_note():
    profile = of_text(
        b"string\t1\tpr\xc3\xb6c\xc3\ninterval\t0\t5.0\nkernel\t0x1\t1\t7\t0\t0\t0\neustall\t0x0\t0"
        + b"\t1" * 10
        + b"\n"
    )

    assert profile.kernels == (LaunchedKernel(1, "pröc\\xc3", 7),)
    assert profile.notes == ("1 text has bytes that are not UTF-8, shown as \\xNN",)
    assert profile.total == 10


def test_windows_line_ends_and_rows_of_zeros_are_accepted(iaprof_sample):
    assert of_text(iaprof_sample.replace("\n", "\r\n")) == of_text(iaprof_sample)
    assert read(io.StringIO(iaprof_sample)) == of_text(iaprof_sample)

    zeros = of_lines(*HEAD, f"eustall\t0x40\t2\t{ZEROS}")
    assert (len(zeros.stalls), zeros.total, len(zeros.profile().samples)) == (1, 0, 0)


def test_separators_in_names_do_not_change_the_sum(tmp_path):
    profile = of_lines(
        "string\t1\ta;b", "string\t2\tf<x;y>", "string\t3\tmain;;sub", "interval\t0\t5.0",
        "kernel\t0x1\t1\t7\t3\t0\t2", "eustall\t0x0\t1" + "\t3" * 10,
    )  # fmt: skip

    stacks = folded_of(profile.profile())
    assert sum(stacks.values()) == 30
    assert set(stacks) == {f"a%3Bb;7;main;sub;-;_[G];f<x%3By>_[G];a%3Bb_[g];{reason}_[g];0x0_[g]" for reason in REASONS}
    written = folded.write(profile.profile(), tmp_path / "a.folded")
    assert folded.read(written).total == 30


def test_a_profile_is_written_in_iaprofs_own_form(tmp_path):
    text = (
        "interval\t3\t1000.010123\nstring\t1\tpython3\nstring\t2\tmain\n"
        "kernel\t0xffff800000100000\t1\t42\t2\t0\t0\nstring\t3\tdpas\neustall\t0x40\t3\t5\t1\t2\t30\t4\t50\t6\t7\t8\t0\n"
        "eustall\t0x50\t3\t0\t0\t0\t0\t0\t0\t0\t0\t0\t9\nmetric\tfrequency-MHz\t2400\nmetric\tbusy-percent\t87\n"
    )

    assert write(of_text(text), tmp_path / "copy.txt").read_text() == text


def test_texts_with_tabs_or_line_ends_cannot_be_written(iaprof_sample, tmp_path):

    profile = of_text(iaprof_sample)
    for text in ("two\nlines", "two\tfields", "end\r"):
        changed = replace(profile, kernels=(profile.kernels[0]._replace(symbol=text), profile.kernels[1]))
        with raises("save.bad-text", RecordingError):
            write(changed, tmp_path / "profile.txt")
    assert not list(tmp_path.iterdir())


def test_an_unreadable_file_and_an_unknown_errors_argument_are_errors(tmp_path):
    with raises("recording.unreadable", RecordingError):
        read(tmp_path / "missing")
    with pytest.raises(ValueError, match="errors"):
        read(tmp_path / "missing", "ignore")


texts = st.text(st.characters(exclude_characters="\t\n", exclude_categories=("Cs",)), max_size=8).map(
    lambda text: text.rstrip("\r")  # it would become part of the line end
)
counts = st.one_of(st.integers(0, 3), st.integers(0, 2**55))


@st.composite
def recordings(draw):
    """Intervals as (number, nanoseconds, kernels with their rows, metrics), with texts instead of ids."""
    kernels = draw(
        st.lists(
            st.tuples(st.integers(0, 2**64 - 1), texts, st.integers(0, 2**32 - 1), texts, texts, texts),
            min_size=1, max_size=3,
        )
    )  # fmt: skip
    rows = st.tuples(st.integers(0, 2**64 - 1), texts, st.lists(counts, min_size=10, max_size=10))
    runs = st.lists(st.tuples(st.sampled_from(kernels), st.lists(rows, max_size=4)), max_size=3)
    metrics = st.lists(st.tuples(st.sampled_from(("frequency-MHz", "busy-percent")), st.integers(0, 5000)), max_size=2)
    steps = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 10**9), runs, metrics), min_size=1, max_size=4))
    number, time, result = -1, draw(st.integers(0, 10**15)), []
    for more, later, runs_here, metrics_here in steps:
        number, time = number + more, time + later
        result.append((number, time, runs_here, metrics_here))
    return result


def written(recording, order):
    """Write the recording without the code under test; ids are assigned in any order."""
    ids, lines = {"": 0}, []

    def known(text):
        if text not in ids:
            ids[text] = order[len(ids) % len(order)] + 1000 * len(ids)
            lines.append(f"string\t{ids[text]}\t{text}")
        return ids[text]

    for number, time, runs, metrics in recording:
        lines.append(f"interval\t{number}\t{time // 10**9}.{time % 10**9:09d}")
        for (address, comm, pid, stack, file, symbol), rows in runs:
            texts_of = [known(text) for text in (comm, stack, file, symbol)]
            lines.append(f"kernel\t0x{address:x}\t{texts_of[0]}\t{pid}\t{texts_of[1]}\t{texts_of[2]}\t{texts_of[3]}")
            for offset, text, values in rows:
                id_ = known(text)
                lines.append("\t".join(["eustall", f"0x{offset:x}", str(id_), *map(str, values)]))
        lines += [f"metric\t{name}\t{value}" for name, value in metrics]
    return "".join(f"{line}\n" for line in lines)


@given(recordings(), st.permutations(list(range(1, 20))), st.sampled_from([1, 37, 4096]))
def test_reading_keeps_every_sample_and_a_written_profile_is_equal(recording, order, block):
    text = written(recording, order)
    before = parse.BLOCK
    parse.BLOCK = block
    try:
        profile = of_text(text)
    finally:
        parse.BLOCK = before

    expected = Counter()
    for number, _, runs, _ in recording:
        for kernel, rows in runs:
            for offset, instruction, values in rows:
                for reason, count in zip(REASONS, values, strict=True):
                    expected[number, kernel, offset, instruction, reason] += count
    found = Counter()
    kernels = profile.kernels
    for row in profile.reasons.itertuples():
        found[row.interval, tuple(kernels[row.kernel_id]), row.offset, row.instruction, row.reason] += row.samples
    assert +found == +expected
    assert profile.total == sum(expected.values()) == sum(folded_of(profile.profile()).values())
    assert profile.intervals.end_ns.tolist() == [time for _, time, _, _ in recording]
    assert profile.metrics.value.tolist() == [value for *_, metrics in recording for _, value in metrics]

    again = "".join(f"{line}\n" for line in write_lines(profile))
    assert of_text(again) == profile


def write_lines(profile):
    from accel_magic.subsystems.iaprof.write import lines

    return lines(profile)


def test_profiles_that_differ_anywhere_are_not_equal(iaprof_sample):
    profile = of_text(iaprof_sample)
    for old, new in (
        ("gemm.cpp", "gemm.h"), ("dpas", "mad"), ("\t120\t", "\t121\t"), ("0x80", "0x81"),
        ("1000.020150", "1000.020151"), ("busy-percent\t64", "busy-percent\t65"), ("\t4242\t7", "\t4243\t7"),
    ):  # fmt: skip
        assert of_text(iaprof_sample.replace(old, new)) != profile
    assert profile != 3
