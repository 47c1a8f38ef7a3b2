"""What was done with devices and frameworks: lines and tables between the headline of a trace and its counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel_magic.quantities import exact_text

if TYPE_CHECKING:
    from accel_magic.recording.recording import Recording
    from accel_magic.views.tables import FormattedTable, TraceTables


def about(shown: TraceTables) -> list[str]:
    """Lines of subsystems. Each node's is analyzed by itself: numbers of jobs mean others elsewhere."""
    recording, lines = shown.recording, list[str]()
    if not shown.whole:
        more = f"{exact_text(recording.event_count)} events are more than can be loaded"
        lines += [f"{more}: .sql(...), .scan() and .lazy() read the files, .between(start_s, end_s) analyzes a piece"]
    if shown.nodes:
        return lines + [f"{name}: {line}" for name, one in shown.nodes.items() for line in about(one)]
    lines += _nothing(recording)
    return lines + shown.subsystems() if shown.whole else lines


def _nothing(recording: Recording) -> list[str]:
    """Why there are no hits."""
    if recording.hits.any():
        return []
    if recording.imported is not None:
        return [f"the {recording.imported.format} has no hits"]
    scope = recording.plan.scope_text()
    why = "the traced code did not reach what they trace, or another process did"
    return [f"none of the probes fired in scope {scope}: {why}"]


def answers(shown: TraceTables) -> list[FormattedTable]:
    """Tables of subsystems whose presets were asked for; none for a trace of nodes, or too large to be analyzed."""
    return shown.answers() if shown.whole and not shown.nodes else []
