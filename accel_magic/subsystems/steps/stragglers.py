"""Stragglers: which rank of a traced job is late, by how much, and what it did instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from bokeh.models import Plot

    from accel_magic.subsystems.steps.lateness import By, Lateness, Matched


class Stragglers:
    """Which rank is late at each step or collective.

    Args:
        lateness: How late each rank was.

    """

    def __init__(self, lateness: Lateness) -> None:
        self.lateness = lateness

    @property
    def by(self) -> By:
        """What was compared: "step" or "collective"."""
        return self.lateness.matched.by

    @property
    def matched(self) -> Matched:
        """How many steps or collectives could be compared: `matched` of `total`, `complete` on all `ranks`."""
        return self.lateness.matched

    @property
    def table(self) -> pd.DataFrame:
        """One row per rank, the one with the most late time first.

        Columns: `node`, `host`, `rank`, `pid`; `matched`, `late` (at least `late_ns` late) and `unknown` (the clocks do
        not tell), counts of steps or collectives; `mean_late_ns`, `p50_late_ns`, `max_late_ns` (of all that are known;
        negative: ahead of the others), `total_late_ns` (of the late ones). Of the late ones, by how much more than the
        median of the others, on average: `cpu_ns`, `waiting_ns`, `driver_ns`, `fault_ns` (NA: not traced, or never
        late), and `cause`, the largest one, by its reason if it is a wait. By collective also `waited_for_late_ns` and
        `transfer_ns`: waiting for the last rank, and the time after that; means of all that matched.
        """
        return self.lateness.table

    @property
    def by_step(self) -> pd.DataFrame:
        """One row per step (or collective) and rank.

        The columns of `StepTables.steps` (or `.collectives`) with `late_ns` (NA: no other rank has it, or the clocks
        do not tell) and `ranks`, the number of ranks that have it; of collectives also `error_ns`, `waited_for_late_ns`
        and `transfer_ns`.
        """
        return self.lateness.rows

    @property
    def notes(self) -> tuple[str, ...]:
        """What limits the answer."""
        return self.lateness.notes

    def figure(self) -> Plot:
        """Draw how late each rank was at each step or collective; a Bokeh figure."""
        from accel_magic.subsystems.steps.figures import lateness as draw

        return draw(self.lateness)

    def __repr__(self) -> str:
        """Return plain text: who is late, how many steps matched, and a row per rank."""
        from accel_magic.subsystems.steps.summary import text

        return text(self.lateness)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        """Text and static HTML in one bundle."""
        from accel_magic.subsystems.steps.summary import html

        return {"text/plain": repr(self), "text/html": html(self.lateness)}
