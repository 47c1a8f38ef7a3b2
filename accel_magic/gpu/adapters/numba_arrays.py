"""Arrays in the simulated device's memory, with the names and methods that Numba's have."""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from accel_magic.errors import ProbeError
from accel_magic.gpu.adapters import CPU_DEVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from accel_magic.gpu.adapters.simulated import Array, Device


@dataclass(eq=False, weakref_slot=True, slots=True)
class Allocation:
    """Memory of the device that is given back when no array lies in it any more."""

    device: Device


@dataclass
class SimulatedArray:
    """An array in the simulated device's memory: what `cuda.to_device` gives within the cell.

    The host sees the memory itself, so that indexing and slicing work as on any array.
    """

    memory: Allocation
    array: Array
    address: int

    @property
    def _numba_type_(self) -> Any:
        from numba.cuda.typing.typeof import typeof  # type: ignore[import-not-found,unused-ignore]

        return typeof(self.array)

    def copy_to_host(self, ary: Array | None = None, stream: int = 0) -> Array:
        """Copy the array, into `ary` where one is given."""
        del stream
        if ary is None:
            return self.array.copy()
        np.copyto(ary, self.array, casting="no")
        return ary

    def copy_to_device(self, ary: Any, stream: int = 0) -> None:
        """Copy another array of the same shape and type into this one."""
        del stream
        np.copyto(self.array, _plain(ary), casting="no")

    def _part(self, array: Array) -> SimulatedArray:
        return SimulatedArray(self.memory, array, self.address + array.ctypes.data - self.array.ctypes.data)

    def __getitem__(self, index: Any) -> Any:
        part = self.array[index]
        return self._part(part) if isinstance(part, np.ndarray) else part

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[index] = _plain(value)

    def __len__(self) -> int:
        return len(self.array)

    def reshape(self, *shape: Any, order: Any = "C") -> SimulatedArray:
        """The same memory in another shape."""
        part = self.array.reshape(*shape, order=order)
        if not np.shares_memory(part, self.array) and part.size:
            raise ProbeError(
                "This array cannot be reshaped without a copy",
                fix="reshape it before cuda.to_device",
                code="gpu.array-not-contiguous",
            )
        return self._part(part)

    def ravel(self, order: Any = "C") -> SimulatedArray:
        """The same memory in one dimension."""
        return self.reshape(-1, order=order)

    def view(self, dtype: Any) -> SimulatedArray:
        """The same memory as another type."""
        return self._part(self.array.view(dtype))

    @property
    def T(self) -> SimulatedArray:  # noqa: N802
        """Transposed."""
        return self._part(self.array.T)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array on a device cannot be seen as a numpy array without a copy")
        return np.array(self.array, dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        if name in {"shape", "dtype", "strides", "size", "ndim", "nbytes", "itemsize", "flags"}:
            return getattr(self.array, name)
        raise AttributeError(f"an array on the {CPU_DEVICE} has no {name!r}; copy_to_host() gives a numpy array")


@dataclass(frozen=True)
class Memory:
    """Functions of `numba.cuda` that make arrays, for the simulated device; streams mean nothing there."""

    device: Device

    def functions(self) -> dict[str, Callable[..., Any]]:
        """All of them, by their names in `numba.cuda`."""
        return {
            "device_array": self.device_array,
            "device_array_like": self.device_array_like,
            "to_device": self.to_device,
            "pinned_array": _pinned_array,
            "pinned_array_like": np.empty_like,
            "pinned": _pinned,
            "synchronize": lambda: None,
            "is_available": lambda: True,
        }

    def device_array(
        self, shape: Any, dtype: Any = np.float64, strides: Any = None, order: Any = "C", stream: int = 0
    ) -> SimulatedArray:
        """Make an array of zeros."""
        del stream
        return self._allocated(_empty(shape, dtype, strides, order))

    def device_array_like(self, ary: Any, stream: int = 0) -> SimulatedArray:
        """Make an array of zeros with the shape and type of another."""
        del stream
        return self._allocated(np.empty_like(_plain(ary)))

    def to_device(self, obj: Any, stream: int = 0, copy: bool = True, to: Any = None) -> SimulatedArray:
        """Make a copy on the device, or copy to an array that is there."""
        made: SimulatedArray = self.device_array_like(np.asarray(_plain(obj)), stream) if to is None else to
        if copy:
            made.copy_to_device(obj, stream)
        return made

    def _allocated(self, like: Array) -> SimulatedArray:
        address = self.device.allocate(max(like.nbytes, 1))
        memory = self.device.view(address, like.nbytes)
        array: Array = np.ndarray(like.shape, like.dtype, memory.data, 0, like.strides)
        owner = Allocation(self.device)
        weakref.finalize(owner, self.device.free, address).atexit = False
        return SimulatedArray(owner, array, address)


def _plain(array: Any) -> Any:
    return array.array if isinstance(array, SimulatedArray) else array


def _empty(shape: Any, dtype: Any, strides: Any, order: Any) -> Array:
    if strides is not None:
        raise ProbeError(
            f"The {CPU_DEVICE} takes no strides for a new array",
            fix="give its shape and order only",
            code="gpu.unsupported-on-cpu",
        )
    return np.empty(shape, dtype, order=order)


def _pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: Any = "C") -> Array:
    return _empty(shape, dtype, strides, order)


@contextmanager
def _pinned(*_arrays: Any) -> Iterator[None]:
    yield
