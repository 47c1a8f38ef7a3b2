"""The tables of docs/drivers.md match those in the code."""

import pytest

from accel_magic.probes import presets
from accel_magic.subsystems.drm import jobs, statistics, waits
from accel_magic.subsystems.drm.presets import drm
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "drivers.md").read_text()
PRESETS = ("xe", "i915", "amdgpu", "amdxdna", "habanalabs", "nvidia", "opencl", "hip")


def section(title):
    return PAGE.partition(f"## {title}")[2].partition("\n## ")[0]


def rows(title):
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell):
    return cell.split("`")[1::2]


def test_every_part_of_drm_is_listed():
    assert [names(row[0])[0] for row in rows("The preset `drm`")] == list(presets.parts("drm"))


def test_every_tracepoint_of_the_scheduler_is_listed():
    for new, *old in (drm.QUEUED, drm.STARTED, drm.DONE, drm.DEPENDS, drm.BLOCKED):
        assert f"| {f'`{old[0]}`' if old else '-'} | `{new}` |" in PAGE


def test_every_column_of_a_job_and_of_a_wait_is_described():
    described = [name for row in rows("Jobs: `t.gpu_jobs`") for name in names(row[0])]

    assert sorted(described) == sorted(jobs.COLUMNS)
    assert [names(row[2]) for row in rows("Other tables") if row[0] == "`waits`"] == [list(waits.COLUMNS)]


def test_every_table_is_listed():
    from accel_magic.subsystems.drm.tables import DrmTables

    tables = {name for name in vars(DrmTables) if not name.startswith("_")} - {"findings"}
    assert {names(row[0])[0] for row in rows("Other tables")} == tables
    assert statistics.STEPS


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_listed_with_its_parts(name):
    (row,) = [row for title in ("Drivers", "Libraries") for row in rows(title) if row[0] == f"`{name}`"]

    assert {f"{name}:{part}" for part in names(row[-1])} == set(presets.parts(name))


def test_the_page_says_that_no_such_hardware_was_seen():
    assert "**No such hardware was seen.**" in PAGE
