"""Numba's kernels on the simulated device: compiled by Numba, without a CUDA driver."""

from __future__ import annotations

import math
import struct
import time
import weakref
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.devices.launches import SIMULATED_DEVICE, KernelSource, LaunchRequest
from accel_magic.devices.sim.simulated_device import ARCH
from accel_magic.errors import ProbeError
from accel_magic.gpu.adapters.numba_kernels import NAME, method, origin
from accel_magic.gpu.adapters.patching import replaced
from accel_magic.gpu.adapters.simulated import copied, host_array, run
from accel_magic.ptx.entries import architecture, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from accel_magic.devices.launches import Observer
    from accel_magic.gpu.adapters.simulated import AdapterDevice, Array


_CAPABILITY: Final = (int(ARCH[3:]) // 10, int(ARCH[3:]) % 10)
_OPTIONS: Final = ("fastmath", "opt", "launch_bounds")
"""Options of `cuda.jit` that are passed to the compiler."""
_REFUSED: Final = (
    "stream",
    "default_stream",
    "external_stream",
    "event",
    "managed_array",
    "mapped",
    "mapped_array",
    "mapped_array_like",
    "as_cuda_array",
    "from_cuda_array_interface",
    "open_ipc_array",
)
"""Functions of `numba.cuda` that need a driver; they raise an error."""
_FORALL_BLOCK: Final = 128


@contextmanager
def simulated(cuda: Any, device: AdapterDevice, observer: Observer) -> Iterator[None]:
    """Make `kernel[grid, block](...)` accept numpy arrays and run on the simulated device.

    `numba.cuda`'s functions that create and copy arrays work; others that need a driver raise ProbeError.
    """
    cell = _Cell(cuda, device, observer)
    gpu = SimulatedGpu(getattr(device, "multiprocessors", 1))
    dispatcher = cuda.dispatcher.CUDADispatcher
    compile_device = dispatcher.compile_device

    def device_function(self: Any, args: Any, return_type: Any = None) -> Any:
        if args not in self.overloads:
            cell.device_functions.append((self, args))
        return compile_device(self, args, return_type)

    patches: list[tuple[Any, str, Any]] = [
        (dispatcher, "call", method(cell.call)),
        (dispatcher, "compile", method(cell.declare)),
        (dispatcher, "disable_compile", lambda _self, _disabled=True: None),
        (dispatcher, "compile_device", device_function),
        *((owner, "get_current_device", lambda: gpu) for owner in (cuda, cuda.dispatcher)),
        (cuda, "select_device", lambda _number=0: gpu),
        (cuda.dispatcher.ForAll, "__call__", _for_all),
        (cuda.dispatcher.config, "CUDA_LOW_OCCUPANCY_WARNINGS", 0),  # does not apply here
        *((cuda, name, function) for name, function in NumbaMemory(device).functions().items()),
        *((cuda, name, _refusal(name)) for name in _REFUSED if hasattr(cuda, name)),
    ]
    with ExitStack() as stack:
        stack.callback(cell.forget)
        for owner, name, function in patches:
            stack.enter_context(replaced(owner, name, function))
        yield


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ProbeError(
            f"cuda.{name} does not work on the {SIMULATED_DEVICE}",
            why="it needs a CUDA driver",
            fix="use cuda.to_device, cuda.device_array or numpy arrays without streams, or run with --device cuda",
            code="gpu.unsupported-on-cpu",
        )

    return refuse


def _for_all(self: Any, *arguments: Any) -> None:
    """Launch `ntasks` threads: `dispatcher.forall(n)(...)`."""
    if self.ntasks:
        block = self.thread_per_block or _FORALL_BLOCK
        self.dispatcher[math.ceil(self.ntasks / block), block, self.stream, self.sharedmem](*arguments)


@dataclass(frozen=True)
class SimulatedGpu:
    """The result of `cuda.get_current_device()` within the cell, with the limits of compute capability 8.0."""

    MULTIPROCESSOR_COUNT: int
    MAX_THREADS_PER_BLOCK: int = 1024
    MAX_SHARED_MEMORY_PER_BLOCK: int = 48 << 10
    WARP_SIZE: int = 32
    compute_capability: tuple[int, int] = _CAPABILITY
    name: bytes = SIMULATED_DEVICE.encode()
    id: int = 0


@dataclass(frozen=True)
class _Kernel:
    name: str
    module: Any
    types: tuple[Any, ...]
    sizes: tuple[int, ...]


@dataclass
class _Cell:
    """Compilation and launches within the cell.

    Attributes:
        declared: Signatures that the user passed to `cuda.jit` within the cell, by dispatcher.
        kernels: Compiled kernels, by dispatcher and argument types.
        device_functions: (dispatcher, argument types) of device functions compiled within the cell.

    """

    cuda: Any
    device: AdapterDevice
    observer: Observer
    declared: dict[int, tuple[Any, list[tuple[Any, ...]]]] = field(default_factory=dict)
    kernels: dict[tuple[int, tuple[Any, ...]], tuple[Any, _Kernel]] = field(default_factory=dict)
    device_functions: list[tuple[Any, Any]] = field(default_factory=list)

    def declare(self, dispatcher: Any, signature: Any) -> None:
        """Record a signature; it is compiled at its first launch."""
        types, _ = self.cuda.core.sigutils.normalize_signature(signature)
        self.declared.setdefault(id(dispatcher), (dispatcher, []))[1].append(tuple(types))

    def call(self, dispatcher: Any, arguments: tuple[Any, ...], config: Any) -> None:
        """Launch a kernel, for `kernel[grid, block](...)`."""
        if config.stream is not None and int(config.stream.handle):
            _refusal("stream")()
        values = [getattr(value, "value", value) if _is_hint(value) else value for value in arguments]
        arrays = [array for value in values for array in _arrays(value, self.device)]
        kernel = self._kernel(dispatcher, self._types(dispatcher, values))
        launch = LaunchRequest(
            NAME,
            kernel.name,
            tuple(config.griddim),
            tuple(config.blockdim),
            config.sharedmem,
            0,
            time.monotonic_ns(),
        )
        with copied(self.device, arrays) as addresses:
            left = iter(addresses)
            words = [
                word
                for kind, value in zip(kernel.types, values, strict=True)
                for word in self._words(kind, value, left)
            ]
            run(self.device, self.observer, kernel.module, launch, _sized(words, kernel.sizes))

    def forget(self) -> None:
        """Restore Numba's tables to their state before the cell."""
        for dispatcher, types in self.device_functions:
            if compiled := dispatcher.overloads.pop(types, None):
                compiled.target_context.remove_user_function(compiled.entry_point)
        for dispatcher, _ in self.declared.values():
            # Numba believes that it is compiled; this makes it compile at the next launch on a GPU.
            dispatcher._specialized = False  # noqa: SLF001

    def _types(self, dispatcher: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        given = tuple(dispatcher.typeof_pyval(value) for value in values)
        _, signatures = self.declared.get(id(dispatcher), (None, []))
        if not signatures and not dispatcher._can_compile:  # noqa: SLF001
            signatures = list(dispatcher.overloads)
        if not signatures or given in signatures:
            return given
        fitting = [one for one in signatures if len(one) == len(given)]
        if not fitting:
            raise ProbeError(
                f"{dispatcher.__name__} does not take {len(given)} arguments",
                why=f"it is declared for {', '.join(map(str, signatures))}",
                code="gpu.wrong-argument-count",
            )
        return tuple(fitting[0])

    def _kernel(self, dispatcher: Any, types: tuple[Any, ...]) -> _Kernel:
        key = id(dispatcher), types
        if key not in self.kernels:
            self.kernels[key] = dispatcher, self._compiled(dispatcher, types)
        return self.kernels[key][1]

    def _compiled(self, dispatcher: Any, types: tuple[Any, ...]) -> _Kernel:
        options = {name: dispatcher.targetoptions[name] for name in _OPTIONS if name in dispatcher.targetoptions}
        function = dispatcher.py_func
        ptx, _ = self.cuda.compiler.compile(
            function, types, device=False, abi="numba", cc=_CAPABILITY, debug=False, lineinfo=True, **options
        )
        found = entries(ptx)
        ((name, parameters),) = found.items()
        source = KernelSource(NAME, (name,), ptx, architecture(ptx), origin(function))
        module = self.device.load(self.observer.rewrite(source))
        return _Kernel(name, module, types, tuple(parameter.size for parameter in parameters))

    def _words(self, kind: Any, value: Any, addresses: Iterator[int]) -> Iterator[int | bytes]:
        """Flatten one argument to the kernel's parameters, following Numba's calling convention."""
        types = self.cuda.types
        if isinstance(kind, types.BaseTuple):
            for member, inner in zip(kind, value, strict=True):
                yield from self._words(member, inner, addresses)
        elif isinstance(kind, types.EnumMember):
            yield from self._words(kind.dtype, value.value, addresses)
        elif isinstance(kind, types.Array):
            yield from _array_words(value, self.device, addresses)
        elif isinstance(kind, types.Integer | types.Boolean):
            yield int(value)
        elif isinstance(kind, types.Float):
            yield struct.pack({16: "<e", 32: "<f", 64: "<d"}[kind.bitwidth], value)
        elif isinstance(kind, types.Complex):
            part = {64: "<f", 128: "<d"}[kind.bitwidth]
            yield from (struct.pack(part, number) for number in (value.real, value.imag))
        elif isinstance(kind, types.NPDatetime | types.NPTimedelta):
            yield int(value.view(np.int64))
        else:
            raise ProbeError(
                f"an argument of Numba's type {kind} cannot be passed to a kernel on the {SIMULATED_DEVICE}",
                fix="pass arrays, numbers and tuples of them",
                code="gpu.bad-argument",
            )


def _is_hint(value: Any) -> bool:
    """Whether the value is `cuda.In(...)`, `Out` or `InOut`; here all arrays are copied both ways."""
    from numba.cuda.args import ArgHint  # type: ignore[import-not-found,unused-ignore]

    return isinstance(value, ArgHint)


def _host(value: Any, device: AdapterDevice) -> Array | None:
    """Return the array to copy for an argument; None if it is on this device already, or is not an array."""
    if isinstance(value, SimulatedArray):
        return None if value.memory.device is device else value.array
    return host_array(value)


def _arrays(value: Any, device: AdapterDevice) -> Iterator[Array]:
    """Yield all arrays to copy, including those within tuples, in the order of the parameters."""
    if isinstance(value, tuple):
        for inner in value:
            yield from _arrays(inner, device)
    elif (array := _host(value, device)) is not None:
        yield array


def _array_words(value: Any, device: AdapterDevice, addresses: Iterator[int]) -> Iterator[int]:
    """Yield Numba's array: meminfo, parent, items, bytes per item, address, shape, strides in bytes."""
    host = _host(value, device)
    array, address = (value.array, value.address) if host is None else (host, next(addresses))
    yield from (0, 0, array.size, array.itemsize, address, *array.shape, *array.strides)


def _sized(words: Sequence[int | bytes], sizes: Sequence[int]) -> list[bytes]:
    """Return integers in the size of their parameters, negative ones in two's complement."""
    return [
        word if isinstance(word, bytes) else (word & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        for word, size in zip(words, sizes, strict=True)
    ]


@dataclass(eq=False, weakref_slot=True, slots=True)
class NumbaAllocation:
    """Device memory that is freed when no array uses it any more."""

    device: AdapterDevice


@dataclass
class SimulatedArray:
    """An array in the simulated device's memory, as `cuda.to_device` returns it within the cell.

    The host can access this memory, so indexing and slicing work as on any array.
    """

    memory: NumbaAllocation
    array: Array
    address: int

    @property
    def _numba_type_(self) -> Any:
        from numba.cuda.typing.typeof import typeof  # type: ignore[import-not-found,unused-ignore]

        return typeof(self.array)

    def copy_to_host(self, ary: Array | None = None, stream: int = 0) -> Array:
        """Copy the array, into `ary` if given."""
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
        """Return a view with another shape."""
        part = self.array.reshape(*shape, order=order)
        if not np.shares_memory(part, self.array) and part.size:
            raise ProbeError(
                "this array cannot be reshaped without a copy",
                fix="reshape it before cuda.to_device",
                code="gpu.array-not-contiguous",
            )
        return self._part(part)

    def ravel(self, order: Any = "C") -> SimulatedArray:
        """Return a one-dimensional view."""
        return self.reshape(-1, order=order)

    def view(self, dtype: Any) -> SimulatedArray:
        """Return a view with another element type."""
        return self._part(self.array.view(dtype))

    @property
    def T(self) -> SimulatedArray:  # noqa: N802
        """The transposed array, a view."""
        return self._part(self.array.T)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("an array on a device cannot become a numpy array without a copy")
        return np.array(self.array, dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        if name in {"shape", "dtype", "strides", "size", "ndim", "nbytes", "itemsize", "flags"}:
            return getattr(self.array, name)
        raise AttributeError(f"an array on the {SIMULATED_DEVICE} has no {name!r}; copy_to_host() gives a numpy array")


@dataclass(frozen=True)
class NumbaMemory:
    """Functions of `numba.cuda` that create arrays, for the simulated device; they ignore streams."""

    device: AdapterDevice

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return all functions by their names in `numba.cuda`."""
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
        """Create an array of zeros."""
        del stream
        return self._allocated(_empty(shape, dtype, strides, order))

    def device_array_like(self, ary: Any, stream: int = 0) -> SimulatedArray:
        """Create an array of zeros with the shape and element type of another."""
        del stream
        return self._allocated(np.empty_like(_plain(ary)))

    def to_device(self, obj: Any, stream: int = 0, copy: bool = True, to: Any = None) -> SimulatedArray:
        """Copy to a new array on the device, or to the array `to`."""
        made: SimulatedArray = self.device_array_like(np.asarray(_plain(obj)), stream) if to is None else to
        if copy:
            made.copy_to_device(obj, stream)
        return made

    def _allocated(self, like: Array) -> SimulatedArray:
        address = self.device.allocate(max(like.nbytes, 1))
        memory = self.device.view(address, like.nbytes)
        array: Array = np.ndarray(like.shape, like.dtype, memory.data, 0, like.strides)
        owner = NumbaAllocation(self.device)
        weakref.finalize(owner, self.device.free, address).atexit = False
        return SimulatedArray(owner, array, address)


def _plain(array: Any) -> Any:
    return array.array if isinstance(array, SimulatedArray) else array


def _empty(shape: Any, dtype: Any, strides: Any, order: Any) -> Array:
    if strides is not None:
        raise ProbeError(
            f"arrays with strides cannot be created on the {SIMULATED_DEVICE}",
            fix="pass only shape and order",
            code="gpu.unsupported-on-cpu",
        )
    return np.empty(shape, dtype, order=order)


def _pinned_array(shape: Any, dtype: Any = np.float64, strides: Any = None, order: Any = "C") -> Array:
    return _empty(shape, dtype, strides, order)


@contextmanager
def _pinned(*_arrays: Any) -> Iterator[None]:
    yield
