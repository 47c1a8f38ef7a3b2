"""The options of a GPU trace besides its programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel_magic.api.option_table import check_choices, count, documented, option, seconds
from accel_magic.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accel_magic.devices.targets import Asked
    from accel_magic.gpu.program.object_model import Per
    from accel_magic.gpu.programs import Verify
    from accel_magic.subsystems.host_api.host_trace import HostApiMode

DEFAULT_THREADS = 1 << 17


@documented
@dataclass(frozen=True)
class GpuOptions:
    """The options of a GPU trace besides its programs; each is also an option of `%%gputrace`."""

    kernel: str = option(
        "*",
        "instrument only kernels that match, e.g. 'matmul*'",
        "only kernels with this name (a glob), mangled or demangled",
        metavar="GLOB",
        kinds=(str,),
    )
    per: Per | None = option(
        None,
        "run programs in each thread, or in one lane of each warp",
        "run programs in each thread, or in the lowest active lane of each warp, overriding the program",
        choices=("thread", "warp"),
    )
    verify: Verify | None = option(
        None,
        "what the verifier rejects",
        "what the verifier rejects: see [The verifier](gpu-programs.md#the-verifier)",
        choices=("strict", "warn", "off"),
        unset="strict for C, warn for .o",
    )
    device: Asked = option(
        "auto",
        "cuda: an NVIDIA GPU; opencl: a device of OpenCL; cpu: the simulated device; auto: what there is",
        "`cuda`: an NVIDIA GPU; `opencl`: a device of OpenCL; `cpu`: the simulated device; `auto`: a GPU if there is "
        "one, else a device of OpenCL if pyopencl is imported, else the simulated device",
        choices=("auto", "cuda", "cpu", "opencl"),
    )
    gpu: int | None = option(
        None,
        "number of the GPU in the driver's list, or of the device over all OpenCL platforms",
        "which GPU, in the driver's numbering; of OpenCL which device, over all platforms",
        metavar="N",
        kinds=(int,),
        unset="the current context's, else the first",
        convert=int,
    )
    threads: int = option(
        DEFAULT_THREADS,
        "size per-thread maps for N threads of a grid",
        "number of threads in a grid that per-thread maps can hold; data of further threads is counted as lost",
        metavar="N",
        kinds=(int,),
        convert=count,
    )
    every: float | None = option(
        None,
        "read small maps every S seconds while kernels run: t.history",
        "read the small maps at this interval while kernels run: `t.history`, see [While it runs](#while-it-runs)",
        metavar="S",
        kinds=(float,),
        convert=seconds,
    )
    by_launch: bool = option(
        False,
        "read them after each launch instead: what it added",
        "read them after each launch instead, waiting for it: what each launch added",
        kinds=(bool,),
    )
    host_api: HostApiMode = option(
        "auto",
        "record calls into the driver too; auto: on GPUs, if the kernel can be traced",
        "record calls into the driver from this process and its children too: see [Host calls](#host-calls); `auto`: "
        "on a GPU, if the kernel can be traced",
        choices=("auto", "on", "off"),
    )
    settings: Mapping[str, int] = option(
        {},
        "set a program's variable or an entry of its map: limit=8, table.3=1",
        "give a program's variable, or an entry of its map (`table.3`), another value before it runs: see "
        "[Settings](gpu-programs.md#settings)",
        factory=dict,
        flags="--set",
        metavar="NAME=NUMBER",
        on_line={"action": "append"},
    )
    fill: Mapping[str, Any] = option(
        {},
        "fill a program's map with an array, list, dict or data frame",
        "what a program's map holds at first: an array or a list (entry i gets item i), a dict, or a data frame with "
        "the map's columns, such as one of `GpuResult.maps`; see [Settings](gpu-programs.md#settings)",
        factory=dict,
        metavar="MAP=VARIABLE",
        on_line={"action": "append"},
    )

    def __post_init__(self) -> None:
        """Check the options. Raises ProbeError."""
        check_choices(self)
        if self.threads < 1:
            raise ProbeError(
                f"threads={self.threads} is not positive", fix="use a positive number", code="gpu.bad-threads"
            )
        from accel_magic.gpu.maps.map_history import check_every

        check_every(self.every)
        if self.every is not None and self.by_launch:
            raise ProbeError(
                "maps can be read by time or by launch, not both",
                fix="remove --by-launch, or --every (in Python: by_launch, every)",
                code="gpu.every-beside-launch",
            )
