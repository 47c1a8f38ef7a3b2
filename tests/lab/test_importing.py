"""Imported output of the kernel's function tracers, compared with the counts of our probes at the same time."""

from __future__ import annotations

import pytest

import accel_magic

pytestmark = pytest.mark.lab

SCRIPT = """
cd /sys/kernel/tracing
echo ivpu_* > set_ftrace_filter
echo {tracer} > current_tracer
for option in {options}; do echo 1 > options/$option; done
{load} > /dev/null
echo 0 > tracing_on
cat trace
echo nop > current_tracer
for option in {options}; do echo 0 > options/$option; done
echo > set_ftrace_filter
echo 1 > tracing_on
"""


@pytest.mark.parametrize(
    "case",
    [
        ("function", "", True),
        ("function_graph", "funcgraph-abstime funcgraph-proc", True),
        pytest.param(("function_graph", "", False), marks=pytest.mark.thorough),
    ],
)
def test_imported_ftrace_calls_match_the_counts_of_our_probes(guest, load, tmp_path, hits_of, case):
    tracer, options, timed = case
    script = SCRIPT.format(tracer=tracer, options=options, load=" ".join(load(jobs=5)))

    ours = guest.trace("intel_vpu:ivpu_*", command=["sh", "-c", script], mode="count")
    path = tmp_path / "trace.txt"
    path.write_text(ours.value.stdout)
    theirs = accel_magic.open(path)

    assert ours.value.status == 0, ours.value.stderr
    counted, imported = hits_of(ours), hits_of(theirs)
    # Only the workload's calls: the driver's own activity starts before and ends after the trace.
    chosen = [name for name in counted if name.endswith("_ioctl") or "map_page" in name or "bo_" in name]
    assert {name: imported.get(name, 0) for name in chosen} == {name: counted[name] for name in chosen}
    assert sum(counted[name] for name in chosen) > 50
    assert theirs.lost == 0
    assert theirs.recording.timed == timed
    assert not any("not understood" in note for note in theirs.recording.notes)
    if tracer == "function_graph":
        assert theirs.latency["count"].sum() > 0.9 * theirs.hits
