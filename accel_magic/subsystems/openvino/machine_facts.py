"""What a recording keeps of the machine: how fast it computes and reads memory, and what its processors offer.

Speeds are measured after the trace, each once per process, and only for traces that need them: 0.1 to 0.2 s together.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Protocol

from accel_magic.subsystems.openvino import preset, processors
from accel_magic.subsystems.openvino.compute_speed import PRECISIONS, flops_per_s

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from accel_magic.probes.plan import Plan

MEMORY_SPEED: Final = "memory_bytes_per_s"
"""How fast it reads its memory."""
CORES: Final = "cores"
"""Cores that one inference at a time can use (`processors.cores`)."""
UNITS: Final = "low_precision_units"
"""Its units for small numbers (`processors.units`)."""
LEAST_FLOPS: Final = 10_000_000
"""Operations of a layer below which its speed is not looked at: a processor takes about 100 us."""
LEAST_BYTES: Final = 1 << 20
"""The same for bytes."""


class LayerWork(Protocol):
    """What is read of a layer; `accel_magic.subsystems.openvino.compiled_models.Layer` has it."""

    @property
    def name(self) -> str:
        """Its name, which its tasks have too."""

    @property
    def precision(self) -> str:
        """Precision in which it computes, such as `f32`."""

    @property
    def flops(self) -> str:
        """Operations of one execution; '' if they are not known."""

    @property
    def bytes(self) -> str:
        """Bytes that one execution moves; '' if they are not known."""


def compute_speed(precision: str) -> str:
    """Name of the entry with the speed of a value of `PRECISIONS`, such as `f32_flops_per_s`."""
    return f"{precision}_flops_per_s"


def machine_facts(plan: Plan, layers: Iterable[LayerWork], generations: Collection[object]) -> dict[str, str]:
    """Return the entries for the description of the machine.

    Args:
        plan: What was traced, with the tasks that were seen.
        layers: The layers of the compiled models.
        generations: The generations of language models, which are compared with the speed of memory.

    """
    traced = {point.function for point in plan.points if preset.is_layer(point)}
    long = [layer for layer in layers if layer.name in traced and is_long(_number(layer.flops), _number(layer.bytes))]
    found = {UNITS: processors.units()}
    cores = processors.cores()
    if cores:
        found[CORES] = str(cores)
    if generations or long:
        from accel_magic.subsystems.openvino.memory_speed import read_bytes_per_s

        found[MEMORY_SPEED] = f"{read_bytes_per_s():.3g}"
    computing = {layer.precision for layer in long if _number(layer.flops) >= LEAST_FLOPS}
    for precision in sorted({PRECISIONS[each] for each in computing & PRECISIONS.keys()}):
        with contextlib.suppress(Exception):  # without OpenVINO's CPU plugin, for instance
            found[compute_speed(precision)] = f"{flops_per_s(precision):.3g}"
    return found


def is_long(flops: float, moved_bytes: float) -> bool:
    """Whether a layer with so many operations and bytes can take 100 us or more."""
    return flops >= LEAST_FLOPS or moved_bytes >= LEAST_BYTES


def compute_speeds(machine: Mapping[str, str]) -> dict[str, float]:
    """The speeds that a recording has, by the precision of layers, operations per second."""
    known = {each: machine.get(compute_speed(measured), "") for each, measured in PRECISIONS.items()}
    return {precision: float(speed) for precision, speed in known.items() if speed}


def _number(text: str) -> int:
    return int(text) if text else 0
