"""Predefined sets of probes for a device: `npu` on a `%%ktrace` line, or `npu:jobs` for one part of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.probes.plan import ProbePoint


NAMES = ("npu", "cuda")
"""The presets; the module with the same name has its table, `PROBES`."""

LOADER = "libze_loader.so.1"
"""Level Zero's loader, through which every program calls the driver."""

WHY_THE_LOADER = (
    "Intel's NPU driver library exports function tables, not the functions; programs call them through Level Zero's "
    f"loader, {LOADER}"
)

INSTALL = {
    LOADER: "apt install libze1, besides Intel's driver; in the lab: python -m accel_magic lab build --level-zero",
    "libcuda.so.1": "install NVIDIA's driver, which includes the library",
}
"""How to get a library that a preset traces."""


def is_npu_driver(library: str) -> bool:
    """Whether a library's name or path is that of Intel's user-mode NPU driver (called `vpu` before v1.16)."""
    return re.fullmatch(r"(?:.*/)?(?:lib)?ze_intel_(?:npu|vpu)(?:\.so.*)?", library) is not None


def is_preset(word: str) -> bool:
    """Whether a word of the probe line is a preset or a part of one."""
    name = word.partition(":")[0]
    return name in NAMES and (word == name or word in parts(name))


def parts(name: str) -> tuple[str, ...]:
    """Parts of a preset, as written on the line: `npu:jobs`."""
    return tuple(dict.fromkeys(probe.part for probe in _table(name)))


def probes(word: str) -> tuple[PresetProbe, ...]:
    """Probes of a preset or of one of its parts."""
    name = word.partition(":")[0]
    return tuple(probe for probe in _table(name) if word in (name, probe.part))


def excluded(text: str) -> Callable[[ProbePoint], bool] | None:
    """Make the test for points that `!npu:power` removes; None if the text is not a preset."""
    word = text.removeprefix("!")
    if not is_preset(word):
        return None
    chosen = {probe.part for probe in probes(word)}
    return lambda point: point.probe in chosen


@cache
def _table(name: str) -> tuple[PresetProbe, ...]:
    table: tuple[PresetProbe, ...] = import_module(f"{__name__}.{name}").PROBES
    return table


@dataclass(frozen=True)
class PresetProbe:
    """One probe of a preset.

    Attributes:
        part: Name of the part it belongs to, e.g. `npu:jobs`; events carry it as their `probe`.
        spec: The probe, in the probe language.
        args: Its own columns, as after `--args`.
        total: The column that the kernel adds up exactly over all hits (of latency probes: those that returned 0).
        group: Shared by alternatives: functions whose names differ among kernels. A missing probe is reported as
            skipped only if its whole group is missing.

    """

    part: str
    spec: str
    args: str = ""
    total: str = ""
    group: str = ""
