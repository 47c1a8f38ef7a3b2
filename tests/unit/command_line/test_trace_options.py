"""The options of `accel-magic trace`: the same as those of `%%ktrace`, and conflicting options."""

import argparse

import pytest

from accel_magic.api import options
from accel_magic.api.option_table import given_of, options_of
from accel_magic.api.trace_options import Options
from accel_magic.command_line import lab_command, main, trace_command
from accel_magic.command_line.exit_status import CommandParser
from accel_magic.magics import ktrace_magic


def parser_of(add, *path):
    """The parser that a command adds, by the names of its commands."""
    parser = CommandParser()
    commands = parser.add_subparsers()
    add(commands)
    for name in path:
        found = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parser = found.choices[name]
    return parser


def table(parser):
    """The arguments of each option, by its name."""
    return {
        action.option_strings[-1]: (action.nargs, action.type, action.choices and tuple(action.choices), action.metavar)
        for action in parser._actions
        if action.option_strings
    }


def test_the_command_has_the_options_of_the_magic():
    ours, theirs = table(parser_of(trace_command.add, "trace")), table(ktrace_magic.parser())

    in_notebooks = {"--output", "--on", "--nodes", "--no-require-all"}  # variables of the notebook
    assert in_notebooks < set(theirs)
    assert set(ours) == set(theirs) - in_notebooks | {"--no-print"}
    shared = set(theirs) - in_notebooks
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


def test_tracing_in_the_lab_takes_the_same_options():
    lab, magics = table(parser_of(lab_command.add, "lab", "trace")), table(ktrace_magic.parser())

    switches = {one.name for one in options_of(Options) if one.kinds == (bool,)}
    names = [one.name for one in options_of(Options) if one.name != "stacks"]
    shared = [f"--{'no-' if name in switches else ''}{name.replace('_', '-')}" for name in names]
    assert len(shared) > 5
    assert [name for name in shared if lab.get(name) != magics[name]] == []


def test_probes_and_options_may_be_in_any_order():
    words = "t:a:b --mode count uprobe:libc:f --max-events 7 !uprobe:libc:g --no-live --buffer 0.5 --stacks t:c:d"
    values = parser_of(trace_command.add, "trace").parse_args(options.with_kinds(words.split()))

    assert values.probes == ["t:a:b", "uprobe:libc:f", "!uprobe:libc:g", "t:c:d"]
    given = {"mode": "count", "max_events": 7, "buffer": 0.5, "stacks": "auto"}
    assert given_of(values, Options) == given
    assert ktrace_magic.parse(words).given == given


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--mode", "count"], "probe.none-given"),
        (["t:a:b", "--"], "command.none-given"),
        (["t:a:b", "--speed", "2"], "option.needs-replay"),
        (["t:a:b", "--run"], "option.needs-replay"),
        (["t:a:b", "--replay", "x.parquet"], "option.replay-traces-nothing"),
        (["--replay", "x.parquet", "--mode", "count"], "option.replay-traces-nothing"),
        (["--replay", "x.parquet", "--", "ls"], "option.replay-command"),
        (["--replay", "x.parquet", "--run"], "option.replay-command"),
        (["t:a:b", "--no-print"], "option.needs-save"),
    ],
)
def test_conflicting_options_are_an_error_with_a_fix(words, code, capsys):
    assert main(["trace", *words]) == 2

    output = capsys.readouterr().err
    assert f"  code: {code}\n" in output
    assert "  fix: " in output


@pytest.mark.parametrize(
    "words", [["t:a:b", "--max-events", "0"], ["t:a:b", "--duration", "nan"], ["t:a:b", "-o", "t"]]
)
def test_bad_values_and_unknown_options_end_with_usage_and_status_2(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(["trace", *words])
    assert left.value.code == 2
    assert "usage: accel-magic" in capsys.readouterr().err
