"""The tables of docs/gputrace.md say what the code's own tables say, and its program compiles."""

import re
from pathlib import Path

import pytest

from accel_magic.analysis.gpu.rules import RULES as FINDINGS
from accel_magic.gpu import programs
from accel_magic.gpu.helpers import HELPERS, MapType
from accel_magic.gpu.tools import TOOLS
from accel_magic.gpu.verifier import findings, promotion, simt
from accel_magic.magics.gpu_options import OPTION_NAMES

PAGE = (Path(__file__).parents[2] / "docs/gputrace.md").read_text()


@pytest.fixture(scope="module")
def rows():
    """Cells of every table row on the page."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_tool_is_described_as_in_the_code(rows):
    listed = {row[0].strip("`"): row[1] for row in rows if row[0].strip("`") in TOOLS}

    assert listed == {tool.name: tool.shows for tool in TOOLS.values()}


def test_every_finding_is_described_as_in_the_code(rows):
    for rule in FINDINGS.values():
        told = f"{rule.threshold:g} {rule.unit}: {rule.source}"
        assert [f"`{rule.id}`", f"`{rule.tool}`", rule.meaning, told, rule.advice] in rows


def test_every_rule_of_the_verifier_is_described_as_in_the_code(rows):
    for rule in (*findings.RULES.values(), *simt.RULES.values(), promotion.PROMOTED):
        assert [f"`{rule.id}`", rule.meaning, rule.fix] in rows


def test_every_helper_and_map_type_is_listed_with_its_number(rows):
    listed = {(row[0], row[1].strip("`")) for row in rows if len(row) > 1}

    assert {(str(helper.id), helper.name) for helper in HELPERS.values()} <= listed
    listed = {(row[0].strip("`"), row[1]) for row in rows if len(row) > 1}
    assert {(f"BPF_MAP_TYPE_{kind.name}", str(kind.value)) for kind in MapType} <= listed


def test_every_option_is_described():
    for name in OPTION_NAMES:
        if name not in ("--help", "--no-live", "--output", "--program", "--device"):
            assert f"`{name}" in PAGE, name


def test_its_program_is_accepted(tmp_path):
    (text,) = re.findall(r"```c\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "mine.bpf.c"
    path.write_text(text)

    (source,) = programs.load([str(path)])

    assert [program.verdict.findings for program in source.gpu] == [()]
