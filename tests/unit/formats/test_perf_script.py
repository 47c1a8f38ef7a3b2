"""Output of `perf script` with call stacks."""

from collections import Counter

import pytest

from accel_magic.errors import RecordingError
from accel_magic.formats import folded, perf_script
from accel_magic.kernel.stacks.frames import Frame, FrameKind
from accel_magic.result_bases.profile import ProfileResult
from tests.support.errors import raises

MIXED = """\
# ========
# captured on    : Fri Nov 20 10:00:00 2026
python3 41/42 [001] 100.000000001:     250000 cpu-clock:
\tffffffff81000c82 asm_exc_page_fault+0x22 ([kernel.kallsyms])
\tffffffffc0401234 ivpu_ioctl+0x10 ([intel_vpu])
\t    7f0000001234 std::sort(int*, int*)+0x8 (/usr/lib/libstdc++.so.6 (deleted))
\t    7f0000001233 inner (inlined)
\t    7f0000002000 py::Net.forward:/home/u/model.py+0xb (/tmp/perf-41.map)
\t    7f0000002100 LazyCompile:*f /tmp/a.js:3+0x5 (/run/perf-41.map)
\t    7f0000003000 [unknown] (/usr/bin/python3.12)
\t               0 [unknown] ([unknown])

  my prog 43/43 [000] 100.5:     250000 cpu-clock:
        55550000aaaa main+0x0 (/usr/bin/a b/prog)
        55550000bbbb clock_gettime (/[vdso])
        55550000cccc __vdso_gettimeofday+0x1 ([vdso])

idle 0/0 [000] 101.000000001:     500000 cpu-clock:
\tffffffff81000d00 do_idle+0x1 (/lib/modules/6.1/vmlinux)
\tffffffffc0500000 scan+0x1 (/lib/modules/6.1/kernel/x/my_mod.ko.xz)

empty 9/9 [000] 101.2:     250000 cpu-clock:

 some output of the program
perf 41/41 [000] 101.3: PERF_RECORD_LOST lost 12
"""


@pytest.fixture
def read(tmp_path):
    def of(text):
        path = tmp_path / "perf.txt"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return perf_script.read(path)

    return of


def test_the_kind_of_a_frame_follows_from_its_library_and_address(read):
    profile = read(MIXED)

    assert [profile.path(node) for node in profile.samples.stack.tolist()] == [
        (
            Frame("python3", FrameKind.PROCESS),
            Frame("", FrameKind.NATIVE),
            Frame("", FrameKind.NATIVE, "/usr/bin/python3.12"),
            Frame("LazyCompile:*f /tmp/a.js:3", FrameKind.NATIVE, "[JIT]"),
            Frame("Net.forward", FrameKind.PYTHON, "/home/u/model.py"),
            Frame("inner", FrameKind.NATIVE, "[inlined]"),
            Frame("std::sort(int*, int*)", FrameKind.NATIVE, "/usr/lib/libstdc++.so.6"),
            Frame("ivpu_ioctl", FrameKind.KERNEL, "intel_vpu"),
            Frame("asm_exc_page_fault", FrameKind.KERNEL),
        ),
        (
            Frame("my prog", FrameKind.PROCESS),
            Frame("__vdso_gettimeofday", FrameKind.NATIVE, "[vdso]"),
            Frame("clock_gettime", FrameKind.NATIVE, "/[vdso]"),
            Frame("main", FrameKind.NATIVE, "/usr/bin/a b/prog"),
        ),
        (
            Frame("idle", FrameKind.PROCESS),
            Frame("scan", FrameKind.KERNEL, "my_mod"),
            Frame("do_idle", FrameKind.KERNEL),
        ),
        (Frame("empty", FrameKind.PROCESS),),
    ]


def test_samples_of_a_clock_are_weighted_by_their_period_and_have_times(read):
    profile = read(MIXED)

    assert profile.samples.weight.tolist() == [250_000, 250_000, 500_000, 250_000]
    assert profile.samples.time_ns.tolist() == [0, 499_999_999, 1_000_000_000, 1_199_999_999]
    assert profile.samples.tid.tolist() == [42, 43, 0, 9]
    assert (profile.unit, profile.duration_ns) == ("ns", 1_199_999_999)


def test_lost_samples_and_lines_that_were_not_understood_are_reported(read):
    profile = read(MIXED)

    assert profile.lost == ((12, "samples lost, as reported by perf", "lost"),)
    assert profile.notes == ("1 sample without a stack, counted as the command's own", "1 line was not understood")


def test_weights_of_several_events_have_their_units_and_are_not_added(read):
    text = (
        "a 1 [0] 5.0: 777 cycles:u: \n\t 10 f+0x1 (/x)\n\n"
        "a 1 [0] 5.5: 40 cycles:u: \n\t 10 g+0x1 (/x)\n\n"
        "a 1 [0] 6.0: sched:sched_switch: prev=1\n\t 10 f+0x1 (/x)\n\n"
        "a 1 [0] 6.5: 1 dummy:HG: \n\n"
    )

    profile = read(text)
    switches = profile.of_event("sched:sched_switch")

    assert list(folded.lines(profile)) == ["a;f 777", "a;g 40"]
    assert (profile.event, profile.unit, profile.origin) == ("cycles:u", "events", "perf script: cycles:u")
    assert list(folded.lines(switches)) == ["a;f 1"]
    assert (switches.unit, [other.event for other in switches.others]) == ("samples", ["cycles:u"])
    assert profile.of_event("cycles") == profile
    assert profile.of_event("dummy:HG") is None
    assert any("dummy" in note for note in profile.notes)
    assert profile.duration_ns == 1_000_000_000


@pytest.mark.parametrize("clock", ["cpu-clock", "task-clock:u", "cpu-clock:pppH", "software/cpu-clock/u"])
def test_a_cpu_clock_is_shown_before_other_events_and_two_clocks_are_not_added(read, clock):
    text = "".join(
        f"a 1 [0] {second}.000000: {period} {event}: \n\t 10 f+0x1 (/x)\n\n"
        for second in range(3)
        for event, period in (("page-faults", 7), (clock, 1_000_000), (f"{clock}x", 9))
    ).replace("clockx", "clock")

    profile = read(text)

    assert (profile.unit, profile.event) == ("ns", clock)
    assert profile.of_event("page-faults").total == 21


def test_a_group_is_its_leaders_event(read):
    text = "a 1 5.0: 7 cycles: \n\t 10 f (/x)\n\na 1 5.1: 8 {cycles,instructions}: \n\t 20 g (/x)\n"

    profile = read(text)

    assert (profile.event, profile.total, profile.others) == ("cycles", 15, ())


def test_samples_count_one_each_with_a_note_if_some_lack_a_period(read):
    profile = read("a 1 5.000001: cpu-clock: \n\t 10 f+0x1 (/x)\n\na 1 5.1: 10 cpu-clock: \n\t 20 g (/x)\n")

    assert (profile.unit, profile.total) == ("samples", 2)
    assert any("1 of 2 samples of cpu-clock have no usable period" in note for note in profile.notes)


def test_a_period_that_is_too_large_is_not_a_weight(read):
    text = "app 21 [001] 100.001000: 18446744073709551615 cycles: \n\t 401b97 a+0x1 (/x)\n\n"

    profile = read(text * 3)

    assert list(folded.lines(profile)) == ["app;a 3"]
    assert any("no usable period" in note for note in profile.notes)


def test_a_line_that_is_not_understood_is_not_read_as_the_name_of_a_thread(read):
    too_long = "x" * 100
    with raises("recording.truncated", RecordingError):
        read(f"{too_long} 21 [001] 100.001000: 1000 cpu-clock: \n\t 401b97 a+0x1 (/x)\n\n" * 3)


def test_samples_without_times_are_read_too(read):
    profile = read("a 1/2 cpu-clock: \n\t 10 f (/x)\n\na 1/2 cpu-clock: \n\t 20 g (/x)\n")

    assert (profile.timed, profile.duration_ns) == (False, 0)
    assert Counter(folded.lines(profile)) == {"a;f 1": 1, "a;g 1": 1}


def test_frames_without_any_sample_are_rejected(read):
    with raises("recording.truncated", RecordingError):
        read("\t 10 f (/x)\n\t 20 g (/x)\n")


GOOD = "app 21 [001] 100.{n:06}: 1000000 cpu-clock: \n\t          401b97 a+0x1f (/usr/bin/x)\n\n"
BAD = [
    "an unknown line\n",
    "#pool of something\n",
    "app 21 [001] 100.000300: PERF_RECORD_COMM: worker:21/21\n",
    "\n",
    "",
]


@pytest.mark.parametrize("line", BAD)
@pytest.mark.parametrize("ended", [True, False])
def test_frames_below_a_line_that_is_not_understood_are_lost_and_join_no_other_sample(read, line, ended):
    good = "".join(GOOD.format(n=n) for n in range(200))
    text = good if ended else good.rstrip("\n") + "\n"

    profile = read(text + line + "\t          401c97 b+0x1f (/usr/bin/x)\n\n" + GOOD.format(n=300))

    joined = ["app;a 200000000", "app;b;a 1000000"]  # nothing separates the frame from the last sample
    apart = line or ended
    assert list(folded.lines(profile)) == (["app;a 201000000"] if apart else joined)
    assert sum(lost.count for lost in profile.lost) == (1 if apart else 0)


def test_frames_at_the_beginning_of_a_truncated_file_are_lost(read):
    profile = read("\t          401c97 b+0x1f (/usr/bin/x)\n\n" + GOOD.format(n=1) * 3)

    assert list(folded.lines(profile)) == ["app;a 3000000"]
    assert profile.lost[0].count == 1


def test_event_fields_that_a_profile_cannot_hold_are_in_the_headline(read):
    text = "a 1 [0] 6.0: sched:sched_switch: prev=1\n\t 10 f+0x1 (/x)\n\n" * 3

    result = ProfileResult(read(text))

    assert "3 events without their fields" in result.summary().splitlines()[0]
    assert result.losses["kind"].tolist() == ["left out"]


@pytest.mark.parametrize(
    ("line", "frame"),
    [
        ("9c51fd34 hash_code ([JIT app cache])", Frame("hash_code", FrameKind.NATIVE, "[JIT]")),
        ("7f01 run ([anon:jit-main])", Frame("run", FrameKind.NATIVE, "[JIT]")),
        ("7f01 run ([heap])", Frame("run", FrameKind.NATIVE, "[heap]")),
        ("7f01 run (/tmp/jitted-12-3.so)", Frame("run", FrameKind.NATIVE, "[JIT]")),
        ("ffffffffc0401234 f+0x1 ([some_mod])", Frame("f", FrameKind.KERNEL, "some_mod")),
        ("401b97 first+0x1f (/opt/My App (x86)/app)", Frame("first", FrameKind.NATIVE, "/opt/My App (x86)/app")),
        ("401b97 first (/opt/My App (x86)/app)", Frame("first", FrameKind.NATIVE, "/opt/My App (x86)/app")),
        ("401b97 first+0x1f (/opt/a)b/app)", Frame("first", FrameKind.NATIVE, "/opt/a)b/app")),
        ("401b97 (anonymous namespace)::f(int) (/x)", Frame("(anonymous namespace)::f(int)", FrameKind.NATIVE, "/x")),
        ("401b97 dead (/x (deleted))", Frame("dead", FrameKind.NATIVE, "/x")),
        ("401b97 (/usr/bin/x)", Frame("0x401b97", FrameKind.NATIVE, "/usr/bin/x")),
        ("401b97 first (/usr/bin/x+0x1b97)", Frame("first", FrameKind.NATIVE, "/usr/bin/x")),
        ("401b97 first+0x1f", Frame("first", FrameKind.NATIVE)),
        ("401b97 std::sort(int*, int*)", Frame("std::sort(int*, int*)", FrameKind.NATIVE)),
        ("401b97 dead", Frame("dead", FrameKind.NATIVE)),
        ("401b97", Frame("0x401b97", FrameKind.NATIVE)),
    ],
)
def test_a_frame_has_the_fields_that_were_printed(read, line, frame):
    profile = read(f"app 21 100.001000: 1000000 cpu-clock: \n\t  {line}\n\n" * 3)

    assert profile.path(int(profile.samples.stack[0])) == (Frame("app", FrameKind.PROCESS), frame)
    assert len(profile.samples) == 3


def test_a_text_without_samples_is_rejected(read):
    with raises("recording.empty", RecordingError):
        read("hello\n")
