"""Output of the scripts in eunomia-bpf/bpf-developer-tutorial's NPU chapter, in samples with other numbers."""

from __future__ import annotations

import re
from collections import Counter

import pytest

import accel_magic
from tests.support.errors import raises
from tests.support.paths import ROOT

RECORDED_RUN = ROOT.parent / "shared" / "data" / "trace_res.txt"
BAR = "|@@@@      |"


def counts(result):
    return dict(zip(result.counts.index.get_level_values("function"), result.counts["hits"], strict=True))


FULL_SCRIPT = (
    "Attaching 4 probes...\nTracing the driver... Hit Ctrl-C to end.\n"
    f"{'TIME(ms)':<10} {'FUNCTION':<40}\n"
    + "".join(
        f"{at:<10} {'kprobe:intel_vpu:ivpu_' + name:<40}\n"
        for at, name in ((8_123_456, "open"), (8_123_456, "rpm_get"), (8_124_000, "open"), (8_133_456, "rpm_get"))
    )
    + "^C\n\n=== Statistics ===\n\nTop functions by call count:\n"
    + "@calls[kprobe:intel_vpu:ivpu_open]: 2\n\n\n"
    + "@calls[kprobe:intel_vpu:ivpu_open]: 2\n@calls[kprobe:intel_vpu:ivpu_rpm_get]: 2\n\n"
)


def test_times_are_read_in_the_unit_named_by_the_header(imported, notes):
    result = imported(FULL_SCRIPT)

    assert result.recording.timed
    assert result.events["time_ns"].tolist() == [0, 0, 544_000_000, 10_000_000_000]
    assert result.duration_s == 10
    assert counts(result) == {"ivpu_open": 2, "ivpu_rpm_get": 2}
    assert result.rates("1s").to_numpy().sum() == pytest.approx(4)
    assert "not understood" not in notes(result)


@pytest.mark.parametrize(
    ("header", "unit"),
    [
        ("TIME(ms)   FUNCTION", 1_000_000),
        ("TIME (us)  PROBE", 1_000),
        ("# Time[s] probe", 1_000_000_000),
        ("TIME_MS    FUNCTION", 1_000_000),
        ("ELAPSED(µs) FUNCTION", 1_000),
        ("usecs      FUNCTION", 1_000),
        ("NSECS FUNCTION", 1),
        ("timestamp(microseconds), probe", 1_000),
    ],
)
def test_units_are_recognized_in_many_forms_of_headers(imported, header, unit):
    result = imported(f"{header}\n100 kprobe:m:f\n107 kprobe:m:g\n")

    assert result.recording.timed
    assert result.events["time_ns"].tolist() == [0, 7 * unit]


@pytest.mark.parametrize("line", ["second try", "Micro benchmark", "time to go", "Time is over (ms)"])
def test_prose_is_not_a_header(imported, line):
    assert imported(f"{line}\n7000000000 kprobe:m:f\n7000000009 kprobe:m:g\n").recording.duration_ns == 9


def test_fractions_are_read_in_the_headers_unit(imported):
    result = imported("TIME(ms) FUNCTION\n100.25 kprobe:m:f\n107.5 kprobe:m:g\n")

    assert result.events["time_ns"].tolist() == [0, 7_250_000]


def test_with_two_conflicting_headers_only_the_order_is_used(imported, notes):
    result = imported("TIME(ms) FUNCTION\n7000000000 kprobe:m:f\nTIME(us) FUNCTION\n7000000009 kprobe:m:g\n")

    assert not result.recording.timed
    assert "headers name several time units" in notes(result)


def test_a_guessed_unit_is_noted_and_can_be_overridden(imported, notes, tmp_path):
    text = "7000000000 kprobe:m:f\n7000000009 kprobe:m:g\n"
    guessed = imported(text)
    path = tmp_path / "given.txt"
    path.write_text(text)

    given = accel_magic.open(path, units="ms")

    assert guessed.recording.duration_ns == 9
    assert "treated as ns" in notes(guessed)
    assert "units=" in notes(guessed)
    assert given.recording.duration_ns == 9_000_000
    assert "treated as" not in notes(given)


def test_small_numbers_are_times_if_their_unit_is_given(tmp_path):
    path = tmp_path / "given.txt"
    path.write_text("17254 kprobe:m:f\n17256 kprobe:m:g\n")

    assert accel_magic.open(path, units={"time": "ms"}).duration_s == 0.002
    assert not accel_magic.open(path).recording.timed


def test_numbers_shared_by_many_events_are_not_treated_as_ns(imported, notes):
    result = imported("".join(f"{8_123_456 + at // 10} kprobe:m:f\n" for at in range(100)))

    assert not result.recording.timed
    assert "units=" in notes(result)


def test_units_given_by_name_override_those_of_the_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text(f"TIME(ms) FUNCTION\n100 kprobe:m:f\n107 kprobe:m:f\n@lat_us: \n[8, 16)  2 {BAR}\n")

    every = accel_magic.open(path, units="s")
    named = accel_magic.open(path, units={"time": "s", "@lat_us": "ms"})

    assert every.recording.duration_ns == 7_000_000
    assert every.latency["max_ns"].item() == 15_999
    assert named.recording.duration_ns == 7_000_000_000
    assert named.latency["max_ns"].item() == 15_999_999


@pytest.mark.parametrize("units", ["fortnights", {"time": "x"}, {"when": "ms"}, 5, {"@lat": None}])
def test_invalid_units_are_rejected(tmp_path, units):
    path = tmp_path / "file.txt"
    path.write_text("17254 kprobe:m:f\n")

    with raises("import.bad-units", accel_magic.ProbeError):
        accel_magic.open(path, units=units)


def test_units_are_rejected_for_formats_that_do_not_use_them(sample):
    with raises("import.units-unused", accel_magic.ProbeError):
        accel_magic.open(sample("events.txt"), units="ms")


ALLOCATIONS = (
    "Attaching 3 probes...\nBuffer release took 183 us\nBuffer release took 91 us\nBuffer release took 95 us\n^C\n\n"
    "Buffer Release Latency (microseconds):\n"
    + f"@release_latency: \n[64, 128)   2 {BAR}\n[128, 256)  1 {BAR}\n\n\n"
    * 2
)


def test_a_histogram_is_read_in_the_unit_of_its_title(imported, notes):
    result = imported(ALLOCATIONS)

    latency = result.latency.droplevel("probe").loc["release_latency"]
    assert (latency["count"], latency["max_ns"]) == (3, 255_999)
    assert 127_999 * 0.968 <= latency["p50_ns"] <= 127_999 * 1.032
    assert "treated as ns" not in notes(result)


def test_lines_that_print_a_duration_are_calls(imported, notes):
    result = imported(ALLOCATIONS)

    assert result.hits == 3
    assert result.events["function"].tolist() == ["Buffer release"] * 3
    assert result.events["duration_ns"].tolist() == [183_000, 91_000, 95_000]
    assert result.latency.droplevel("probe").loc["Buffer release", "max_ns"] == 183_000
    assert not result.recording.timed
    assert "not understood" not in notes(result)


@pytest.mark.parametrize(
    ("title", "name", "scale"),
    [
        ("Latency (microseconds):", "latency", 1e3),
        ("Distribution (queue -> delivery, microseconds):", "spread", 1e3),
        ("ISR latency distribution (μs):", "isr_latency", 1e3),
        ("Suspend duration distribution (ms):", "suspended", 1e6),
        ("in milliseconds:", "delay", 1e6),
        ("Latency (usecs)", "latency", 1e3),
        ("Latency (ms):", "lat_us", 1e3),
        ("Latency:", "latency_us", 1e3),
        ("Latency:", "latency", 1),
    ],
)
def test_titles_and_names_determine_units(imported, title, name, scale):
    assert imported(f"\n{title}\n\n@{name}: \n[8, 16)  1 {BAR}\n").latency["max_ns"].item() == 16 * scale - 1


def test_a_title_applies_only_to_the_map_directly_below_it(imported, notes):
    result = imported(
        f"A (ms):\n@a: \n[8, 16)  1 {BAR}\n\n@delay: \n[8, 16)  1 {BAR}\nB (ms):\nwords\n@time: \n[8, 16)  1 {BAR}\n"
    )

    longest = result.latency.droplevel("probe")["max_ns"].to_dict()
    assert longest == {"a": 15_999_999, "delay": 15, "time": 15}
    assert "@delay" in notes(result)


def test_titles_in_json_output_determine_units(imported):
    lines = [
        '{"type": "printf", "data": "\\nLatency (microseconds):\\n"}',
        '{"type": "hist", "data": {"@latency": [{"min": 8, "max": 15, "count": 3}]}}',
        '{"type": "map", "data": {"@c": 6}}',
        '{"type": "hist", "data": {"@latency": [{"min": 8, "max": 15, "count": 3}]}}',
    ]

    latency = imported("\n".join(lines) + "\n").latency

    assert (latency["count"].item(), latency["max_ns"].item()) == (3, 15_999)


def test_lines_with_rates_are_summed_over_the_seconds(imported, notes):
    printed = "".join(f"IPC messages/sec: {count}\n" for count in (0, 61, 17))
    result = imported(f"Attaching 3 probes...\n{printed}^C\n\n@last_time: 421\n")

    assert result.hits == 78
    assert result.duration_s == 3
    assert counts(result) == {"IPC messages": 78}
    assert result.rates("1s")["IPC messages"].tolist() == [0, 61, 17]
    assert not result.plan.records_events
    assert "once a second" in notes(result)
    assert result.figure("rate") is not None


def test_tagged_lines_are_events_in_their_order(imported, notes):
    lines = [
        "[API] Send work",
        "[KERNEL] Send ioctl",
        "[FIRMWARE] interrupt 7",
        "[FIRMWARE] interrupt 8",
        "[API] Send work",
    ]
    result = imported("Attaching 3 probes...\n" + "\n".join(lines) + "\n^C\n\n@sent_time: 12345678901\n")

    assert result.events["probe"].tolist() == [re.sub(r"\d", "#", line) for line in lines]
    assert counts(result) == {"Send work": 2, "Send ioctl": 1, "interrupt #": 2}
    assert not result.recording.timed
    assert "not understood" not in notes(result)


def test_fields_of_tagged_lines_are_columns(imported):
    result = imported("Attaching 1 probe...\n[API] Send queue=4 size=0x10\n[API] Wait\n")

    assert result.events["function"].tolist() == ["Send", "Wait"]
    assert result.events["queue"].tolist()[0] == 4
    assert result.events["size"].tolist()[0] == 16


def test_a_log_with_tags_is_not_mistaken_for_bpftrace(tmp_path):
    path = tmp_path / "app.log"
    path.write_text("[INFO] started\n[WARN] slow\n" * 20)

    with raises("recording.unknown-format", accel_magic.RecordingError):
        accel_magic.open(path)


def test_tagged_lines_are_not_events_if_there_are_probe_events(imported):
    assert imported("Attaching 1 probe...\n[INFO] hello\nkprobe:m:f\nload took 3 ms\n").hits == 1


UNIQ = "   4131 kprobe:m:map_page\n    951 kprobe:m:count_get\n     25 kprobe:m:bo_pin\n      1 kprobe:m:open\n"


def test_counts_made_by_uniq_are_counts(imported, notes):
    result = imported(UNIQ + "      1 Attaching 223 probes...\n      2 \n")

    assert counts(result) == {"map_page": 4131, "count_get": 951, "bo_pin": 25, "open": 1}
    assert result.hits == 5108
    assert result.recorded == 0
    assert "uniq -c" in notes(result)
    assert "not understood" not in notes(result)


def test_counts_made_by_uniq_keep_the_rest_of_the_line(imported):
    result = imported("     31 python3 kprobe:m:f\n     12 bash kprobe:m:f size=4\n")

    assert result.counts["hits"].to_dict() == {
        ("kprobe:m:f [python3]", "f"): 31,
        ("kprobe:m:f [bash, size=4]", "f"): 12,
    }


def test_counts_beyond_seven_digits_and_of_unsorted_lines_are_read(imported):
    assert imported("12345678 kprobe:m:f\n     25 kprobe:m:g\n").hits == 12345703
    assert imported("      1 kprobe:m:f\n     25 kprobe:m:g\n      3 kprobe:m:f\n").hits == 29


@pytest.mark.parametrize(
    "text",
    [
        "  17254 kprobe:m:f\n  17254 kprobe:m:f\n  17255 kprobe:m:f\n",
        "17254 kprobe:m:f\n17254 kprobe:m:g\n",
        "      0 kprobe:m:f\n     12 kprobe:m:g\n",
        "TIME(ms) FUNCTION\n      5 kprobe:m:f\n     12 kprobe:m:g\n",
    ],
)
def test_other_numbers_before_a_probe_are_not_counts(imported, text):
    assert imported(text).hits == text.count("kprobe")


def test_the_recorded_run_counted_by_uniq_has_the_same_counts(tmp_path):
    """`sort my_trace.txt | uniq -c | sort -rn | head -20`, as in the tutorial."""
    if not RECORDED_RUN.exists():
        pytest.skip("the recorded run is missing")
    lines = Counter(RECORDED_RUN.read_text().splitlines()).most_common(20)
    path = tmp_path / "top.txt"
    path.write_text("".join(f"{count:7} {line}\n" for line, count in lines))

    result = accel_magic.open(path)

    assert counts(result) == {line.split(":")[2]: count for line, count in lines}
    assert counts(result)["ivpu_mmu_context_map_page"] == 4131


@pytest.mark.parametrize("unit", ["k", "K"])
def test_bucket_formats_of_all_bpftrace_versions_are_read(imported, unit):
    text = f"@ns: \n(...,0]  0 {BAR}\n[512, 1{unit})  2 {BAR}\n[1{unit}, 2{unit})  3 {BAR}\n[2{unit},...)  1 {BAR}\n"
    latency = imported(text).latency

    assert (latency["count"].item(), latency["max_ns"].item()) == (6, 2048)
