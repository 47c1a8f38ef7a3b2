"""The `%%gputrace` line: words to values, and mistakes to typed errors."""

import pytest

from accel_magic.api.options import Common
from accel_magic.errors import ProbeError
from accel_magic.gpu_tools import TOOLS
from accel_magic.magics.gputrace_magic import parse, parser
from accel_magic.magics.magic_line import HelpRequested, option_names


def test_tools_files_and_options_may_be_in_any_order():
    line = parse("threadhist --kernel 'mat*' mine.bpf.c -o t --per warp --program other.o --threads 64 --device cpu")

    assert line.programs == ("threadhist", "mine.bpf.c", "other.o")
    assert line.given == {"kernel": "mat*", "per": "warp", "threads": 64, "device": "cpu"}
    assert line.common.output == "t"


def test_maps_are_read_by_time_or_by_launch():
    assert parse("threadhist --every 0.5").given == {"every": 0.5}
    assert parse("threadhist --by-launch").given == {"by_launch": True}


def test_settings_are_numbers_and_tables_are_named():
    line = parse("mine.bpf.c --set limit=0x10 --set table.3=-1 --fill table=numbers")
    assert line.given == {"settings": {"limit": 16, "table.3": -1}}
    assert line.fill == ("table=numbers",)


def test_options_not_on_the_line_are_not_given():
    line = parse("memtrace")

    assert line.given == {}
    assert line.common == Common(output=None, live=None, save=None, dry_run=False, replay=None, speed=1.0, run=False)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "no tool or program given"),
        ("threadhist --per block", "--per"),
        ("threadhist --threads 0", "--threads"),
        ("threadhist --threads many", "--threads"),
        ("threadhist --device npu", "--device"),
        ("threadhist --verify maybe", "--verify"),
        ("threadhist --grid 4", "--grid"),
        ("threadhist --every 0", "--every"),
        ("threadhist --set limit", "limit"),
        ("--replay a.parquet --fill table=numbers", "--replay takes no"),
        ("threadhist --every launch", "--every"),
        ("--replay a.parquet --by-launch", "--replay takes no"),
        ("threadhist -o 2x", "2x"),
        ("threadhist --speed 2", "--replay"),
        ("--replay a.parquet threadhist", "--replay takes no"),
        ("--replay a.parquet --per warp", "--replay takes no"),
        ("threadhist 'open", "close the quotes"),
    ],
)
def test_a_mistake_is_a_probe_error_that_names_it(text, named):
    with pytest.raises(ProbeError) as caught:
        parse(text)

    assert named in str(caught.value)
    assert "%%%%" not in str(caught.value)


def test_replay_takes_its_own_options():
    line = parse("--replay a.parquet --speed 2 --run")

    assert (line.programs, line.common.replay, line.common.speed, line.common.run) == ((), "a.parquet", 2.0, True)


def test_help_lists_every_tool_and_option():
    with pytest.raises(HelpRequested) as caught:
        parse("--help")

    text = str(caught.value)
    assert "%%gputrace TOOL|FILE" in text
    for word in (*TOOLS, *option_names(parser())):
        assert word in text
