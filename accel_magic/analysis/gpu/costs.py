"""Cost of programs to the kernels they are injected into: registers, spills, occupancy, before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from accel_magic.gpu.codegen.assemble import assemble, compare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.gpu.codegen.assemble import Resources
    from accel_magic.recording.gpu_data import GpuRecording

_OF = ("registers_{}", "spills_{}_bytes", "stack_{}_bytes", "occupancy_{}")


def costs(recording: GpuRecording) -> pd.DataFrame:
    """Assemble the modules of a recording without and with its programs.

    Returns:
        As `GpuResult.resources`.

    Raises:
        MachineError: There is no assembler.
        ProgramError: The assembler rejects a module.

    """
    names = ["name", *(what.format(when) for what in _OF for when in ("before", "after"))]
    return pd.DataFrame(list(_rows(recording)), columns=names)


def _rows(recording: GpuRecording) -> Iterator[dict[str, Any]]:
    first = recording.launches.drop_duplicates("kernel").set_index("kernel")
    ran = recording.kernels[recording.kernels["instrumented"] & recording.kernels["kernel"].isin(first.index)]
    for module, kernels in ran.groupby("module"):
        text = recording.modules.iloc[int(str(module))]
        before, after = assemble(text["before"], text["arch"]), assemble(text["after"], text["arch"])
        for number, name in zip(kernels["kernel"], kernels["name"], strict=True):
            launch = first.loc[number]
            threads = int(launch["block_x"] * launch["block_y"] * launch["block_z"])
            for change in compare(before, after, threads, int(launch["shared_bytes"])):
                if change.kernel == name:
                    yield {
                        "name": name,
                        **_of(change.before, "before"),
                        **_of(change.after, "after"),
                        "occupancy_before": change.occupancy_before.share,
                        "occupancy_after": change.occupancy_after.share,
                    }


def _of(needs: Resources, when: str) -> dict[str, Any]:
    return {
        f"registers_{when}": needs.registers,
        f"spills_{when}_bytes": needs.spill_stores + needs.spill_loads,
        f"stack_{when}_bytes": needs.stack,
    }
