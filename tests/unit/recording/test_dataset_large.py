"""A dataset of 200 million events is summarized, queried and drawn in 1 GiB of memory."""

import json
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

EVENTS = 200_000_000
MOST_MIB = 1024


def step(*words):
    command = [sys.executable, "-m", "benchmarks.dataset_child", *map(str, words)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
def test_200_million_events_are_counted_summed_up_and_drawn_in_a_gibibyte(tmp_path):
    made = step("make", tmp_path / "large", EVENTS)
    counted, peer, shown = (step(what, tmp_path / "large") for what in ("sql", "duckdb", "summary"))

    assert counted["rows"] == peer["rows"]
    assert sum(counted["rows"].values()) == EVENTS
    assert max(made["mib"], counted["mib"], shown["mib"]) <= MOST_MIB
