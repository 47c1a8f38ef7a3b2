"""What layers need at least: their operations at the speed of the processors, or their bytes at that of the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd

from accel_magic.subsystems.openvino.machine_facts import CORES, MEMORY_SPEED, compute_speeds

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPUTING: Final = "computing_ns"
MOVING: Final = "moving_ns"


def needed_ns(layers: pd.DataFrame, models: pd.DataFrame, machine: Mapping[str, str]) -> pd.DataFrame:
    """Return what one execution of each layer needs at least, in the order of `layers`, with a new index.

    A model's streams share the processors, and so does a model with fewer threads than there are cores: its layers have
    that part of both speeds.

    Columns, ns, NaN where the work of the layer or the speed of the machine is not known: `computing_ns`, `moving_ns`,
    `needed_ns` (the longer one; for layers whose operations are not known, `moving_ns`).

    Args:
        layers: `t.openvino.layers`.
        models: `t.openvino.models`.
        machine: The description of the machine in the recording.

    """
    flops, moved = (layers[column].astype("float64").reset_index(drop=True) for column in ("flops", "bytes"))
    speed = layers["precision"].map(compute_speeds(machine)).astype("float64").reset_index(drop=True)
    part = layers["model"].map(_parts(models, machine)).fillna(1.0).astype("float64").reset_index(drop=True)
    computing = (flops * 1e9 / speed).where(flops > 0, flops) / part
    moving = moved * 1e9 / (float(machine.get(MEMORY_SPEED, "nan"))) / part
    computing = computing.where(computing.notna() | (flops > moved), moving)  # too few to matter
    return pd.DataFrame(
        {COMPUTING: computing, MOVING: moving, "needed_ns": pd.concat([computing, moving], axis=1).max(axis=1)}
    )


def _parts(models: pd.DataFrame, machine: Mapping[str, str]) -> dict[str, float]:
    """The part of the cores that an inference of each model has."""
    cores = int(machine.get(CORES, "0"))
    threads = (models["threads"] / models["streams"].clip(lower=1)).astype("float64")
    return {str(name): min(each / cores, 1.0) for name, each in threads.items() if cores and each > 0}
