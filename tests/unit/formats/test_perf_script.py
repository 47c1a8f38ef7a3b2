"""Output of `perf script` with call stacks."""

from collections import Counter

import pytest

from accel_magic.errors import RecordingError
from accel_magic.formats import folded, perf_script
from accel_magic.kernel.stacks.frames import Frame, Kind
from tests.support.errors import raises

MIXED = """\
# ========
# captured on    : Fri Nov 20 10:00:00 2026
python3 41/42 [001] 100.000000001:     250000 cpu-clock:uhH:
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
            Frame("python3", Kind.PROCESS),
            Frame("", Kind.NATIVE),
            Frame("", Kind.NATIVE, "/usr/bin/python3.12"),
            Frame("LazyCompile:*f /tmp/a.js:3", Kind.NATIVE, "[JIT]"),
            Frame("Net.forward", Kind.PYTHON, "/home/u/model.py"),
            Frame("inner", Kind.NATIVE, "[inlined]"),
            Frame("std::sort(int*, int*)", Kind.NATIVE, "/usr/lib/libstdc++.so.6"),
            Frame("ivpu_ioctl", Kind.KERNEL, "intel_vpu"),
            Frame("asm_exc_page_fault", Kind.KERNEL),
        ),
        (
            Frame("my prog", Kind.PROCESS),
            Frame("__vdso_gettimeofday", Kind.NATIVE, "[vdso]"),
            Frame("clock_gettime", Kind.NATIVE, "/[vdso]"),
            Frame("main", Kind.NATIVE, "/usr/bin/a b/prog"),
        ),
        (Frame("idle", Kind.PROCESS), Frame("scan", Kind.KERNEL, "my_mod"), Frame("do_idle", Kind.KERNEL)),
        (Frame("empty", Kind.PROCESS),),
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
    assert profile.notes == ("1 samples have no stack and count as the command's own", "1 lines were not understood")


def test_samples_of_other_events_count_one_each(read):
    text = (
        "a 1 [0] 5.0: 777 cycles:u: \n\t 10 f+0x1 (/x)\n\na 1 [0] 6.0: 3 sched:sched_switch: prev=1\n\t 10 f+0x1 (/x)\n"
    )

    profile = read(text)

    assert list(folded.lines(profile)) == ["a;f 2"]
    assert (profile.unit, profile.origin) == ("samples", "perf script: cycles:u, sched:sched_switch")


def test_samples_of_a_clock_without_a_period_count_one_each(read):
    profile = read("a 1 5.000001: cpu-clock: \n\t 10 f+0x1 (/x)\n\na 1 5.1: 10 cpu-clock: \n\t 20 g (/x)\n")

    assert (profile.unit, profile.total) == ("samples", 2)


def test_samples_without_times_are_read_too(read):
    profile = read("a 1/2 cpu-clock: \n\t 10 f (/x)\n\na 1/2 cpu-clock: \n\t 20 g (/x)\n")

    assert (profile.timed, profile.duration_ns) == (False, 0)
    assert Counter(folded.lines(profile)) == {"a;f 1": 1, "a;g 1": 1}


def test_a_frame_before_the_first_sample_is_named(read):
    with raises("recording.truncated", RecordingError, match="line 2 of "):
        read("\n\t 10 f (/x)\n")


def test_a_text_without_samples_is_rejected(read):
    with raises("recording.empty", RecordingError):
        read("hello\n")
