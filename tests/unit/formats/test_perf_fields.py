"""The grammar of perf script's lines: any set of fields, in perf's own widths and in others."""

from __future__ import annotations

import pytest

import accel_magic
from accel_magic.formats import folded, perf_script
from accel_magic.formats.recognise import recognise
from accel_magic.result_bases.profile import ProfileResult
from accel_magic.results.trace_result import TraceResult

pytestmark = pytest.mark.component

NAMES = ("app", "#pool", "9 lives", "{group}", "pool 5", "dead", "a [0] 1.5: x:", "two  (spaces)", ":21", "CPU 1/TCG")
HEADERS = {
    "default": "{comm} {tid:>5} {time:>12}: {period:>10} cpu-clock: ",
    "cpu": "{comm} {tid:>7} [{cpu:03}] {time:>12}: {period:>10} cpu-clock:pppH: ",
    "pid": "{comm} {tid:>7}/{tid:<7} [{cpu:03}] {time:>12}: {period:>10} cpu-clock: ",
    "misc": "{comm} {tid:>5} K     {time:>12}: {period:>10} cpu-clock: ",
    "no misc": "{comm} {tid:>5}       {time:>12}: {period:>10} cpu-clock: ",
    "flags": "{comm} {tid:>5} [{cpu:03}] d..h. {time:>12}: {period:>10} cpu-clock: ",
    "date": "{comm} {tid:>5} 2026-11-26 10:00:00.123456 {time:>12}: {period:>10} cpu-clock: ",
    "guest": "VM:   12 VCPU:001 {comm} {tid:>5} {time:>12}: {period:>10} cpu-clock: ",
    "no comm": "{tid:>5} {time:>12}: {period:>10} cpu-clock: ",
    "no tid": "{comm} {time:>12}: {period:>10} cpu-clock: ",
    "no time": "{comm} {tid:>5} {period:>10} cpu-clock: ",
    "no period": "{comm} {tid:>5} {time:>12}: cpu-clock: ",
    "no event": "{comm} {tid:>5} {time:>12}: {period:>10} ",
    "comm and time": "{comm} {time:>12}: ",
    "comm and event": "{comm} cpu-clock: ",
    "comm and period": "{comm} {period:>10} ",
    "comm and tid": "{comm} {tid:>5} ",
    "tid and period": "{tid:>7} {period:>10} ",
    "comm alone": "{comm} ",
    "event alone": "cpu-clock: ",
    "time alone": "{time:>12}: ",
    "period alone": "{period:>10} ",
    "nothing": "",
}
FRAMES = "\t{address:>16x} add+0x1f (/opt/My App (x86)/app)\n\t          401c97 main+0x2 (/opt/My App (x86)/app)\n"
SAMPLES = [
    {"comm": name, "tid": 100 + n, "cpu": n, "time": f"100.{n:06}", "period": 1000 + n, "address": 0x401B97 + n}
    for n, name in enumerate(NAMES)
]


def printed(header, *, chain, frames=FRAMES):
    """Return the text of all samples, as perf prints it with or without `-g`."""
    if chain:
        return "".join(f"{header}\n{frames}\n".format(**sample) for sample in SAMPLES)
    aligned = header.replace("{comm}", "{comm:>16}")
    first = frames.partition("\n")[0].removeprefix("\t")
    return "".join(f"{aligned} {first}\n".format(**sample) for sample in SAMPLES)


@pytest.mark.parametrize("chain", [True, False])
@pytest.mark.parametrize("name", HEADERS)
def test_every_set_of_fields_is_read_completely(tmp_path, name, chain):
    header = HEADERS[name]
    (path := tmp_path / "perf.txt").write_text(printed(header, chain=chain))

    result = accel_magic.open(path)
    profile = result.profile

    places = {"comm": NAMES, "tid": tuple(str(sample["tid"]) for sample in SAMPLES)}
    roots = next((values for field, values in places.items() if f"{{{field}" in header), ("",) * len(NAMES))
    inner = "main;add" if chain else "add"
    stacks = [";".join(filter(None, (root, inner))) for root in roots]
    weights = [sample["period"] if "period" in header else 1 for sample in SAMPLES]
    assert isinstance(result, ProfileResult)
    assert result.lost == 0
    assert [folded_text(profile, stack) for stack in profile.samples.stack.tolist()] == stacks
    assert profile.samples.weight.tolist() == weights
    assert profile.samples.tid.tolist() == [sample["tid"] if "tid" in header else 0 for sample in SAMPLES]
    assert profile.timed == ("time" in header)
    unit = ("ns" if "cpu-clock" in header else "events") if "period" in header else "samples"
    assert (profile.unit, profile.event.partition(":")[0]) == (unit, "cpu-clock" if "cpu-clock" in header else "")
    assert not any("not understood" in note for note in profile.notes)


def folded_text(profile, stack):
    return ";".join(frame.name for frame in profile.path(stack))


@pytest.mark.parametrize(
    "frames",
    [
        "\t{address:>16x} add\n\t          401c97 main\n",
        "\t{address:>16x} (/usr/bin/x)\n\t          401c97 (/usr/bin/x)\n",
        "\t{address:>16x}\n\t          401c97\n",
        "\t{address:>16x} add+0x1f (/usr/bin/x)\n  x.c:12\n\t          401c97 main+0x1f (/usr/bin/x)\n  ??:0\n",
        "        {address:>16x} add+0x1f (/usr/bin/x)\n                  401c97 main+0x1f (/usr/bin/x)\n",
        "\t{address:>16x} add (inlined)\n\t          401c97 main+0x1f (/usr/bin/x)\n",
    ],
)
def test_every_set_of_a_frames_fields_is_read(tmp_path, frames):
    (path := tmp_path / "perf.txt").write_text(printed(HEADERS["default"], chain=True, frames=frames))

    result = accel_magic.open(path)

    assert result.total == sum(sample["period"] for sample in SAMPLES)
    assert set(result.profile.depths[result.profile.samples.stack].tolist()) == {2}
    assert not any("not understood" in note for note in result.profile.notes)


RECORDS = """\
app     0     0.000000: PERF_RECORD_COMM: app:21/21
app 21 [001] 100.000900: PERF_RECORD_COMM exec: app:21/21
app 21 [001] 100.000900: PERF_RECORD_MMAP2 21/21: [0x5635e44e0000(0x1000) @ 0x1000 fe:00 2146363 22]: r-xp /usr/bin/x
app 21 [001] 100.000900: PERF_RECORD_FORK(22:22):(21:21)
app 21 [001] 100.000900: PERF_RECORD_NAMESPACES 21/21 - nr_namespaces: 7
\t\t[0/net: 4/0xf0000098, 1/uts: 4/0xeffffffe, 2/ipc: 4/0xefffffff, 3/pid: 4/0xeffffffc,
\t\t 4/user: 4/0xeffffffd, 5/mnt: 4/0xf0000000, 6/cgroup: 4/0xeffffffb]
app 21 [001] 100.000900: PERF_RECORD_LOST lost 12
"""


@pytest.mark.parametrize("chain", [True, False])
def test_records_that_are_not_samples_are_not_counted(tmp_path, chain):
    text = printed(HEADERS["cpu"], chain=chain)
    (path := tmp_path / "perf.txt").write_text(RECORDS + text + RECORDS)

    result = accel_magic.open(path)

    assert len(result.samples) == len(SAMPLES)
    assert result.lost == 24
    assert result.profile.duration_ns == 9_000
    assert not any("not understood" in note for note in result.profile.notes)


def test_comments_at_the_beginning_are_no_threads(tmp_path):
    comments = "# ========\n# captured on    : Fri Nov 20 10:00:00 2026\n# hostname : box\n# ========\n#\n"
    (path := tmp_path / "perf.txt").write_text(comments + printed("{comm} ", chain=True))

    assert [frame.name for frame in perf_script.read(path).frames if frame.kind == 1] == list(NAMES)


TRACEPOINT = "app 21 [001] 100.{n:06}: sched:sched_switch: prev_comm=a prev_pid=1 ==> next_comm=b next_pid=2\n"
SAMPLED = "app 21 [001] 100.{n:06}: 1000000 cpu-clock:      55ca199491ba add+0x11 (/usr/bin/x)\n"


@pytest.mark.parametrize(
    ("tracepoints", "samples", "kind", "words"),
    [
        (5, 0, TraceResult, ""),
        (0, 5, ProfileResult, ""),
        (9, 5, TraceResult, ""),
        (5, 9, ProfileResult, "5 events without their fields"),
    ],
)
def test_the_reader_that_loses_less_is_chosen_and_says_what_is_lost(tmp_path, tracepoints, samples, kind, words):
    lines = [TRACEPOINT.format(n=n) for n in range(tracepoints)] + [SAMPLED.format(n=20 + n) for n in range(samples)]
    (path := tmp_path / "perf.txt").write_text("".join(lines))

    result = accel_magic.open(path)

    assert isinstance(result, kind)
    assert words in result.summary().splitlines()[0]
    assert len(result.samples if kind is ProfileResult else result.events) == (
        max(tracepoints, samples) if kind is ProfileResult else tracepoints + samples
    )
    if kind is TraceResult and samples:
        sampled = result.events[result.events["function"] == "cpu-clock"]
        assert set(sampled["symbol"]) == {"add+0x11"}
        assert set(sampled["dso"]) == {"/usr/bin/x"}
        assert sampled["period"].tolist() == [1_000_000] * samples


@pytest.mark.parametrize(
    "text",
    [
        "note: one\nnote: two\n",
        "total 1000 bytes: x\n" * 5,
        "error 12 at line 100.5: bad: input\nwarning 13 in file: worse\n",
        "@[\n\tffffffff811c9e31 vfs_read+1 ([kernel.kallsyms])\n]: 12\n",
        "deadbeef\n" * 4,
    ],
)
def test_other_text_is_not_perfs(tmp_path, text):
    (path := tmp_path / "x.txt").write_text(text)

    try:
        name = recognise(path).name
    except accel_magic.RecordingError as error:
        name = error.code
    assert "perf" not in name


def test_folded_lines_of_a_large_file_are_those_of_its_samples(tmp_path):
    """More lines than decide the layout, in several blocks."""
    count = 5_000
    text = "".join(
        f"w{n % 3} {n % 7:>5} {n}.000001: {n + 1:>10} cycles:u: \n\t          401b9{n % 10} f{n % 10}+0x1 (/x)\n\n"
        for n in range(count)
    )
    (path := tmp_path / "perf.txt").write_text(text)

    profile = perf_script.read(path)

    assert profile.total == count * (count + 1) // 2
    assert len(list(folded.lines(profile))) == 30
