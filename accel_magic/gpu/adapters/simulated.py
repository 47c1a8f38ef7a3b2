"""Users' kernels on the simulated device: copies arrays there and back, and reports launches."""

from __future__ import annotations

import ctypes
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from accel_magic.devices.launches import SIMULATED_DEVICE
from accel_magic.errors import ProbeError, ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from accel_magic.devices.launches import LaunchRequest, Observer
    from accel_magic.devices.sim.images import ImageTable


Array: TypeAlias = "NDArray[Any]"


class AdapterLaunch(Protocol):
    """The result of a launch."""

    @property
    def duration_ns(self) -> int:
        """Duration in the device's model of time."""

    @property
    def number(self) -> int:
        """The device's own number of the launch."""

    @property
    def printed(self) -> Sequence[str]:
        """The kernel's output."""


class AdapterDevice(Protocol):
    """The part of `accel_magic.devices.sim.SimulatedDevice` that adapters use."""

    images: ImageTable
    """Textures and surfaces."""

    def allocate(self, size: int, align: int = 256) -> int:
        """Allocate memory; returns its address."""

    def free(self, address: int) -> None:
        """Free memory."""

    def view(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return a view of the device's memory, not a copy."""

    def load(self, ptx: str) -> Any:
        """Load a module."""

    def launch(  # noqa: PLR0917 - the device's own signature
        self,
        module: Any,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: Sequence[int | float | np.generic | bytes],
        shared_bytes: int = 0,
        *,
        cooperative: bool = False,
    ) -> AdapterLaunch:
        """Run a kernel until it ends."""


def run(
    device: AdapterDevice,
    observer: Observer,
    module: Any,
    launch: LaunchRequest,
    arguments: Sequence[int | float | np.generic | bytes],
) -> None:
    """Run a kernel, and report the launch before and after.

    Raises:
        AccelMagicError: The kernel failed on the device.

    """
    observer.launching(launch)
    ran = device.launch(
        module,
        launch.kernel,
        launch.grid,
        launch.block,
        arguments,
        launch.shared_bytes,
        cooperative=launch.cooperative,
    )
    if ran.printed:
        sys.stdout.write("".join(ran.printed))  # like a GPU's driver
    observer.launched(replace(launch, returned_ns=time.monotonic_ns(), device_ns=ran.duration_ns, number=ran.number))


def host_array(value: object) -> Array | None:
    """Return a numpy array, or a view of a PyTorch CPU tensor as one; None for other values.

    Element types that numpy lacks (bfloat16, 8-bit floats) become integers of the same size.

    Raises:
        ProbeError: The array holds Python objects, or the tensor is on another device.

    """
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise ProbeError(
                "an array of Python objects cannot be copied to a GPU",
                fix="use a numeric dtype",
                code="gpu.bad-argument",
            )
        return value
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if value.device.type != "cpu":
        raise ProbeError(
            f"a tensor on {value.device} cannot be passed to the {SIMULATED_DEVICE}",
            fix="pass tensor.cpu(), or run the cell with --device cuda",
            code="gpu.array-on-other-device",
        )
    flat = value.detach()
    try:
        seen: Array = flat.numpy()
    except TypeError:
        seen = flat.view({1: torch.uint8, 2: torch.int16}[flat.element_size()]).numpy()
    return seen


@dataclass(slots=True)
class _Region:
    """Host memory that is copied in one piece; arrays may share it."""

    low: int
    high: int
    writable: bool
    address: int = 0

    @property
    def size(self) -> int:
        return self.high - self.low

    def host(self) -> NDArray[np.uint8]:
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.size).from_address(self.low))


@contextmanager
def copied(device: AdapterDevice, arrays: Sequence[Array]) -> Iterator[tuple[int, ...]]:
    """Copy arrays to the device, and back when the context ends without an error.

    Arrays that share memory on the host share it on the device too.

    Args:
        device: The device to copy to.
        arrays: Any shapes, dtypes and strides.

    Yields:
        The address of each array's first element.

    Raises:
        ProgramError: The kernel wrote to a read-only array.

    """
    regions = _regions(arrays)
    try:
        for region in regions:
            region.address = device.allocate(max(region.size, 1))
            device.view(region.address, region.size)[:] = region.host()
        yield tuple(_address(array, regions) for array in arrays)
        for region in regions:
            _copy_back(device, region)
    finally:
        for region in regions:
            if region.address:
                device.free(region.address)


def _copy_back(device: AdapterDevice, region: _Region) -> None:
    now, host = device.view(region.address, region.size), region.host()
    if region.writable:
        host[:] = now
    elif not np.array_equal(host, now):
        raise ProgramError(
            "a kernel wrote to a read-only array",
            why="numpy's flag `writeable` is off, so the result cannot be copied back",
            fix="pass a copy: array.copy()",
            code="gpu.array-read-only",
        )


def _regions(arrays: Sequence[Array]) -> list[_Region]:
    regions: list[_Region] = []
    for low, high, writable in sorted((*_bounds(array), array.flags.writeable) for array in arrays):
        if regions and low < regions[-1].high:
            regions[-1].high = max(regions[-1].high, high)
            regions[-1].writable |= writable
        else:
            regions.append(_Region(low, high, writable))
    return regions


def _bounds(array: Array) -> tuple[int, int]:
    low = array.ctypes.data
    if not array.size:
        return low, low
    reaches = [(length - 1) * stride for length, stride in zip(array.shape, array.strides, strict=True)]
    high = low + sum(reach for reach in reaches if reach > 0) + array.itemsize
    return low + sum(reach for reach in reaches if reach < 0), high


def _address(array: Array, regions: Sequence[_Region]) -> int:
    first, (low, high) = array.ctypes.data, _bounds(array)
    region = next(one for one in regions if one.low <= low and high <= one.high)
    return region.address + first - region.low


def three(numbers: object) -> tuple[int, int, int]:
    """Return a grid or block, given as an int or up to three of them, padded to three with ones.

    Raises:
        ProbeError: It is neither.

    """
    given = tuple(numbers) if isinstance(numbers, list | tuple) else (numbers,)
    try:
        sizes = [int(number) for number in given]
    except (TypeError, ValueError):
        sizes = []
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise ProbeError(
            f"{numbers!r} is not a grid or block",
            why="each must be one to three positive integers",
            fix="pass e.g. (blocks, 1, 1)",
            code="gpu.bad-launch-shape",
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
