"""The rule about a trace of which no subsystem claims anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from accel_magic.findings import Evidence, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def _no_subsystem(names: Iterable[str], _: Rule[Iterable[str]]) -> Iterator[Evidence]:
    yield Evidence({"names": ", ".join(sorted(names))})


RULES: Final = (
    Rule(
        "trace.no-subsystem",
        "note",
        "no rule applies to what was traced",
        "There are rules about {names}, and this trace has none of their probe points. Counts, latencies and events "
        "are complete all the same.",
        "Add a preset to the probes, such as `%%ktrace npu`, `%%ktrace drm` or `%%ktrace openvino`.",
        source="no probe point of the trace belongs to a subsystem",
        check=_no_subsystem,
    ),
)
"""Rules that read the names of the subsystems that there are."""
