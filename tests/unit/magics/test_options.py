"""The `%%ktrace` line: words to values, and mistakes to typed errors."""

import pytest

from accel_magic.api.options import Common
from accel_magic.errors import ProbeError
from accel_magic.magics.ktrace_magic import parse, parser
from accel_magic.magics.magic_line import HelpRequested, option_names
from tests.support.errors import raises


def test_probes_and_options_may_be_in_any_order():
    line = parse("t:a:b -o name --mode count uprobe:libc:f --max-events 7 !uprobe:libc:g --no-live --buffer 0.5")

    assert line.probes == ("t:a:b", "uprobe:libc:f", "!uprobe:libc:g")
    assert line.given == {"mode": "count", "max_events": 7, "buffer": 0.5}
    assert line.common == Common(output="name", live=False, save=None, dry_run=False, replay=None, speed=1.0, run=False)


def test_options_not_on_the_line_are_not_given():
    line = parse("t:a:b")

    assert line.given == {}
    assert (line.common.output, line.common.live) == (None, None)


def test_quotes_keep_a_filter_together():
    line = parse("""t:a:b --filter 'comm == "a b" and pid > 1' --args "size=arg1:u64, path=arg0:str" """)

    assert line.given == {"filter": 'comm == "a b" and pid > 1', "args": "size=arg1:u64, path=arg0:str"}


def test_a_filter_may_start_with_a_minus_when_joined_by_an_equals_sign():
    assert parse("t:a:b '--filter=-1 < retval'").given == {"filter": "-1 < retval"}


@pytest.mark.parametrize(
    ("text", "number"), [("--duration 2", 2.0), ("--duration 0.25", 0.25), ("--buffer 64", 64.0), ("--max-events 1", 1)]
)
def test_numbers_are_read(text, number):
    assert list(parse(f"t:a:b {text}").given.values()) == [number]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--mode count",
        "t:a:b --bogus",
        "t:a:b --max 3",  # no abbreviations: a new option could change their meaning
        "t:a:b --mode fast",
        "t:a:b --max-events 0",
        "t:a:b --max-events -3",
        "t:a:b --max-events 2.5",
        "t:a:b --max-events many",
        "t:a:b --duration 0",
        "t:a:b --duration nan",
        "t:a:b --duration inf",
        "t:a:b --buffer -1",
        "t:a:b --speed 2",
        "t:a:b --run",
        "t:a:b --replay x.parquet",
        "--replay x.parquet --mode count",
        "--replay x.parquet --save y.parquet",
        "--replay x.parquet --speed 0",
        "--replay x.parquet --dry-run",
        "t:a:b -o",
        "t:a:b -o 3rd",
        "t:a:b -o a.b",
        "t:a:b --filter 'open",
        't:a:b "open',
        "t:a:b trailing\\",
    ],
)
def test_a_mistake_is_a_probe_error_with_a_fix(line):
    with pytest.raises(ProbeError) as caught:
        parse(line)

    assert caught.value.what
    assert caught.value.fix


def test_an_unknown_option_is_named():
    with raises("option.unknown", ProbeError, match="--colour"):
        parse("t:a:b --colour red")


def test_replay_takes_its_own_options():
    line = parse("--replay a.parquet --speed 2.5 --run -o r --no-live")

    assert line.common == Common(
        output="r", live=False, save=None, dry_run=False, replay="a.parquet", speed=2.5, run=True
    )
    assert line.probes == ()


def test_help_is_text_with_every_option_and_no_percent_escapes():
    with pytest.raises(HelpRequested) as caught:
        parse("--help")

    text = str(caught.value)
    assert "%%ktrace PROBE" in text
    assert "%%%%" not in text
    for name in option_names(parser()):
        assert name in text


def test_stacks_without_kinds_means_all_kinds_and_does_not_consume_a_probe():
    assert parse("--stacks t:a:b").given == {"stacks": "auto"}
    assert parse("--stacks t:a:b").probes == ("t:a:b",)
    assert parse("t:a:b --stacks").given == {"stacks": "auto"}
    assert parse("--stacks --stacks t:a:b").given == {"stacks": "auto"}
    assert parse("t:a:b --stacks=kernel,python").given == {"stacks": "kernel,python"}
    line = parse("--stacks user,python t:a:b --mode events")
    assert (line.given, line.probes) == ({"mode": "events", "stacks": "user,python"}, ("t:a:b",))
