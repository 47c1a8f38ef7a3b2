"""Numbers formatted for people."""

import math

import pytest

from accel_magic.quantities import (
    bytes_text,
    count_text,
    counted_text,
    duration_text,
    exact_text,
    rate_text,
    ratio_text,
    sentence_text,
    shortened,
)


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"), (0.5, "0.5 ns"), (999, "999 ns"), (999.6, "1 us"), (12_300, "12.3 us"), (999_600, "1 ms"),
        (4_500_000, "4.5 ms"), (59e9, "59 s"), (99.94e9, "99.9 s"), (99.96e9, "1 min 40 s"), (125e9, "2 min 5 s"),
        (11_220e9, "3 h 7 min"), (math.nan, "-"), (math.inf, "-"),
    ],
)  # fmt: skip
def test_durations_have_three_digits_and_a_suitable_unit(ns, text):
    assert duration_text(ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (7, "7"), (999, "999"), (1000, "1 k"), (12_345, "12.3 k"), (999_600, "1 M"), (4_500_000, "4.5 M"),
     (1.234e9, "1.23 G"), (5e15, "5000 T"), (math.nan, "-")],
)  # fmt: skip
def test_counts_have_three_digits_and_a_prefix(count, text):
    assert count_text(count) == text


def test_rates_are_counts_per_second():
    assert rate_text(4_500_000) == "4.5 M/s"
    assert rate_text(0) == "0/s"
    assert rate_text(math.nan) == "-"


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1000, "1000 B"), (1536, "1.5 KiB"), (64 * 2**20, "64 MiB")])
def test_sizes_use_powers_of_1024(size, text):
    assert bytes_text(size) == text


def test_exact_counts_keep_every_digit():
    assert exact_text(12_345_678) == "12,345,678"


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.25, "1.25x"), (0.00123, "0.00123x"), (123.4, "123x"), (math.inf, "inf"), (math.nan, "-")]
)
def test_ratios_are_multiples_of_the_baseline(ratio, text):
    assert ratio_text(ratio) == text


@pytest.mark.parametrize("width", [3, 8, 15])
def test_a_long_name_keeps_both_ends_and_exactly_its_width(width):
    cut = shortened("abcdefghijklmnop", width)

    assert len(cut) == width
    assert cut.startswith("a")
    assert cut.endswith("p")
    assert shortened("abc", width) == "abc"


@pytest.mark.parametrize(
    ("several", "one"),
    [
        (
            "hits were missed: the kernel could not run the probe",
            "1 hit was missed: the kernel could not run the probe",
        ),
        ("samples and waits have no stack: the table was full", "1 sample or wait has no stack: the table was full"),
        ("records or entries did not fit", "1 record or entry did not fit"),
        ("later launches are not shown", "1 later launch is not shown"),
        (
            "samples and waits of the notebook's own threads are left out",
            "1 sample or wait of the notebook's own threads is left out",
        ),
        ("much", "1 much"),
    ],
)
def test_a_sentence_about_one_thing_is_singular(several, one):
    assert sentence_text(1, several) == one
    assert sentence_text(1200, several) == f"1,200 {several}"


def test_counted_things_have_a_singular():
    assert counted_text(1, "launch", "launches") == "1 launch"
    assert counted_text(0, "launch", "launches") == "0 launches"
    assert counted_text(1234, "stack") == "1,234 stacks"
