"""The types of a preset's table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PresetProbe:
    """One probe of a preset.

    Attributes:
        part: Name of the part it belongs to, e.g. `npu:jobs`; events carry it as their `probe`.
        spec: The probe, in the probe language.
        args: Its own columns, as after `--args`.
        total: The column that the kernel adds up exactly over all hits (of latency probes: those that returned 0).
        group: Alternatives share a name: what one kernel calls so and another otherwise. A probe that does not exist is
            told as left out unless another of its group does.

    """

    part: str
    spec: str
    args: str = ""
    total: str = ""
    group: str = ""
