"""The tables of docs/npu.md and docs/npu-findings.md match those in the code."""

import pytest

from accel_magic.npu_interface import level_zero
from accel_magic.probes import presets
from accel_magic.subsystems.npu.functions import FAMILIES
from accel_magic.subsystems.npu.phases import PHASES
from tests.support.paths import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def rows():
    """Cells of every table row on the page."""
    lines = [line for line in (DOCS / "npu.md").read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def listed(names):
    return ", ".join(names) or "-"


@pytest.mark.parametrize("table", [FAMILIES, PHASES], ids=["families", "phases"])
def test_families_and_phases_are_described_as_in_the_code(rows, table):
    for name, text in table.items():
        assert [name, text] in rows


def test_every_part_of_the_preset_is_listed(rows):
    assert set(presets.parts("npu")) == {row[0].strip("`") for row in rows if row[0].startswith("`npu:")}


def test_the_api_map_matches_the_code(rows):
    for call in level_zero.CALLS:
        by_kernel = " or ".join(filter(None, [", ".join(call.managed), ", ".join(call.unmanaged)]))
        ways = listed((*call.entries, *filter(None, [by_kernel])))
        name = f"`{call.name}`" + ("" if call.traced else " *")
        assert [name, call.does, ways, listed(call.sometimes)] in rows


def test_the_handler_of_each_ioctl_matches_the_code(rows):
    for entry in level_zero.ENTRIES.values():
        code = [listed(f"`{name}`" for name in names) for names in (entry.below, entry.sometimes, entry.later)]
        assert [entry.name, f"`{entry.handler}`", *code] in rows
