"""Damaged and hostile files: every importer returns a result that can be shown, or raises a clear error."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accel_magic
from accel_magic.errors import RecordingError
from accel_magic.formats import folded
from accel_magic.result_bases.profile import ProfileResult
from tests.support.errors import raises

pytestmark = pytest.mark.component

PERF = """\
python3  123/456 [001]  5.000001:     250000 cpu-clock:u:
\t          401000 foo+0x10 (/usr/bin/a)
\tffffffff81000000 do_syscall+0x1 ([kernel.kallsyms])
\t               0 py::f:/m.py (/tmp/perf-5.map)

swapper 0 [000] 5.1: 1 cycles:
\tffffffffc0000000 drv ([ivpu])

PERF_RECORD_LOST lost 55
"""
FOLDED = "main;a (x.py:3);b_[k] 3\npy::f (/m.py:7);c%3Bd;e_[g] 44\n\n- 5\n;; 2\nx 9223372036854775\n"
SPEEDSCOPE = {
    "exporter": "accel_magic 0",
    "activeProfileIndex": 0,
    "shared": {"frames": [{"name": "py::main", "file": "a.py", "line": 3}, {"name": "b_[k]"}, {"name": "thread 5"}]},
    "profiles": [
        {"type": "sampled", "name": "thread 5", "unit": "nanoseconds", "samples": [[0, 1], []], "weights": [4, 3]},
        {
            "type": "evented",
            "name": "x (7), accelerator",
            "unit": "milliseconds",
            "startValue": 0,
            "events": [{"type": "O", "frame": 0, "at": 0}, {"type": "C", "frame": 0, "at": 9.5}],
        },
    ],
}  # fmt: skip
NODES = [{"id": 1, "callFrame": {"functionName": "(root)"}, "children": [2]},
         {"id": 2, "hitCount": 3, "callFrame": {"functionName": "f", "url": "a.js", "lineNumber": 3}}]  # fmt: skip
V8 = {"nodes": NODES, "samples": [2, 1, 2], "timeDeltas": [4, 5, 6], "startTime": 5, "endTime": 50}
CHUNKS = {
    "traceEvents": [
        {"ph": "P", "name": "Profile", "pid": 1, "id": "0x1", "tid": 7, "args": {"data": {"startTime": 100}}},
        {"ph": "P", "name": "ProfileChunk", "pid": 1, "id": "0x1", "args": {"data": {
            "cpuProfile": {"nodes": NODES, "samples": [1, 2]}, "timeDeltas": [5, 6]}}},
    ]
}  # fmt: skip
SECTIONS = {
    "stackFrames": {"1": {"name": "a"}, "2": {"name": "b", "parent": "1"}},
    "samples": [{"sf": 2, "ts": "5.5", "tid": 3, "weight": 4}, {"sf": 1}],
}
TEXTS = {"a.folded": FOLDED, "perf.txt": PERF}
OBJECTS = {"a.speedscope.json": SPEEDSCOPE, "v8.cpuprofile": V8, "c.cpuprofile": CHUNKS, "s.cpuprofile": SECTIONS}
WORSE = (0, -1, 2**31, 2**63, 10**30, 1e308, -1e308, float("nan"), 0.5, None, True, "", "9" * 30, "1e400", "\ud800", [],
         [[]], {})  # fmt: skip
TOKENS = (b"\t", b"\n", b" ", b";", b"\0", b"\xff", b"\r\n", b"%3B", b"(", b")", b"9" * 30, b"-1", b"\xd9\xa3")


def shown(path):
    """Open a file and show it in every way, or check the error that users see."""
    try:
        result = accel_magic.open(path)
    except RecordingError as error:
        assert error.fix  # noqa: PT017 - the error is optional
        return
    assert result.summary()
    if not isinstance(result, ProfileResult):
        return  # the rest of the file is a tracer's text
    json.dumps(result._repr_mimebundle_(), ensure_ascii=False).encode()  # the encoding of a stored notebook
    assert len(result.samples) == len(result.profile.samples)
    assert result.samples.filter(like="weight_").sum().item() == result.total
    assert folded.read(result.to_folded(path.with_name("again.folded"))).total == result.total
    again = accel_magic.open(result.to_parquet(path.with_name("again.parquet")))
    assert (type(again), again.total) == (type(result), result.total)


def places(value):
    """Yield every container and key within a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in list(inner):
        yield value, key
        yield from places(each)


@pytest.mark.parametrize("name", OBJECTS)
def test_values_of_another_kind_are_rejected_or_shown(tmp_path, name):
    count = len(list(places(OBJECTS[name])))

    @given(st.lists(st.tuples(st.integers(0, count - 1), st.sampled_from(WORSE)), min_size=1, max_size=2))
    def holds(changes):
        content = copy.deepcopy(OBJECTS[name])
        for place, value in changes:
            left = list(places(content))  # an earlier change may have removed some of them
            owner, key = left[place % len(left)]
            owner[key] = copy.deepcopy(value)
        (tmp_path / name).write_text(json.dumps(content))
        shown(tmp_path / name)

    holds()


@pytest.mark.parametrize("name", TEXTS)
def test_unexpected_bytes_are_rejected_or_shown(tmp_path, name):
    @given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9), st.sampled_from(TOKENS)), min_size=1, max_size=4))
    def holds(changes):
        content = TEXTS[name].encode()
        for place, removed, token in changes:
            at = int(place * len(content))
            content = content[:at] + token + content[at + removed :]
        (tmp_path / name).write_bytes(content)
        shown(tmp_path / name)

    holds()


@pytest.mark.parametrize(
    ("name", "content", "where"),
    [
        ("v8.cpuprofile", V8 | {"samples": [2, [], 2]}, "samples"),
        ("v8.cpuprofile", V8 | {"samples": [2, None, 2]}, "samples"),
        ("v8.cpuprofile", V8 | {"timeDeltas": [1e308, 1e308, 5]}, "timeDeltas"),
        ("v8.cpuprofile", V8 | {"endTime": 1e300}, "timeDeltas"),
        ("s.cpuprofile", SECTIONS | {"samples": [{"sf": 1, "weight": 2**62 - 1}] * 3}, "sum of all weights"),
        ("a.speedscope.json", SPEEDSCOPE | {"shared": {"frames": [{"name": "a", "line": 2**31}] * 3}}, "line"),
    ],
)
def test_numbers_too_large_for_a_column_are_named(tmp_path, name, content, where):
    path = tmp_path / name
    path.write_text(json.dumps(content))

    with raises("recording.unknown-format", RecordingError) as error:
        accel_magic.open(path)
    assert where in error.value.why


def test_lone_surrogates_are_shown_escaped(tmp_path):
    path = tmp_path / "a.speedscope.json"
    frames = [{"name": "a\ud800", "file": "\udc80.py"}] * 3
    path.write_text(json.dumps(SPEEDSCOPE | {"shared": {"frames": frames}, "exporter": "me \udfff"}))

    result = accel_magic.open(path)

    assert [r"a\ud800", r"\udc80.py"] in result.frames[["name", "module"]].to_numpy().tolist()
    assert r"me \udfff" in result.profile.origin
    shown(path)


def chain(count):
    return {str(number): {"name": f"f{number}", "parent": str(number + 1)} for number in range(count)}


HOSTILE = {
    "a log of one line": ("a.txt", b"a " + b"1 : " * 300_000),
    "a log of a few lines": ("a.txt", b"a " + b"1 : " * 300_000 + b"\n x\n"),
    "numbers above a frame": ("a.txt", b"a " + b"1 " * 1_000_000 + b"\n\t10 f (/a)\n"),
    "a line of blanks": ("perf.txt", PERF.encode() + b"a" + b" " * 500_000 + b"x\n"),
    "a frame of parentheses": ("a.folded", b"a;" + b" (" * 500_000 + b":5 3\n"),
    "a deep stack": ("a.folded", b";".join(b"f%d" % number for number in range(20_000)) + b" 3\n"),
    "a deep recursion": ("a.folded", b"f;" * 50_000 + b"f 3\n"),
    "frames that call each other": (
        "s.cpuprofile",
        json.dumps({"stackFrames": {**chain(20_000), "20000": {"name": "r"}}, "samples": [{"sf": 0}]}).encode(),
    ),
}


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.timeout(240)  # a parser that backtracks takes hours, or all memory
@pytest.mark.parametrize(("name", "content"), HOSTILE.values(), ids=HOSTILE)
def test_the_cost_of_reading_grows_linearly_with_the_size(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)

    shown(path)
