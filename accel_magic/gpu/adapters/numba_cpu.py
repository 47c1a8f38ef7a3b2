"""Numba's kernels on the simulated device: compiled by Numba's own compiler, with no driver."""

from __future__ import annotations

import math
import struct
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.errors import ProbeError
from accel_magic.gpu.adapters import CPU_DEVICE, KernelSource, Launch
from accel_magic.gpu.adapters.entries import architecture, entries
from accel_magic.gpu.adapters.numba_arrays import Memory, SimulatedArray
from accel_magic.gpu.adapters.numba_cuda import NAME, method, origin
from accel_magic.gpu.adapters.patching import replaced
from accel_magic.gpu.adapters.simulated import ARCH, copied, host_array, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from accel_magic.gpu.adapters import Observer
    from accel_magic.gpu.adapters.simulated import Array, Device

_CAPABILITY: Final = (int(ARCH[3:]) // 10, int(ARCH[3:]) % 10)
_OPTIONS: Final = ("fastmath", "opt", "launch_bounds")
"""Options of `cuda.jit` that the compiler takes too."""
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
"""Functions of `numba.cuda` that need a driver, and have no counterpart here."""
_FORALL_BLOCK: Final = 128


@contextmanager
def simulated(cuda: Any, device: Device, observer: Observer) -> Iterator[None]:
    """Let `kernel[grid, block](...)` take numpy arrays and run on the simulated device.

    Of `numba.cuda`'s functions for memory those work that make arrays and copy them; the others raise ProbeError.
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
        (cuda.dispatcher.config, "CUDA_LOW_OCCUPANCY_WARNINGS", 0),  # advice for a GPU
        *((cuda, name, function) for name, function in Memory(device).functions().items()),
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
            f"cuda.{name} does not work on the {CPU_DEVICE}",
            why="there is no CUDA driver below it",
            fix="use cuda.to_device, cuda.device_array or numpy arrays, and no streams, or run with --device cuda",
            code="gpu.unsupported-on-cpu",
        )

    return refuse


def _for_all(self: Any, *arguments: Any) -> None:
    """Launch over `ntasks` threads: `dispatcher.forall(n)(...)`."""
    if self.ntasks:
        block = self.thread_per_block or _FORALL_BLOCK
        self.dispatcher[math.ceil(self.ntasks / block), block, self.stream, self.sharedmem](*arguments)


@dataclass(frozen=True)
class SimulatedGpu:
    """What `cuda.get_current_device()` gives within the cell: the limits of compute capability 8.0."""

    MULTIPROCESSOR_COUNT: int
    MAX_THREADS_PER_BLOCK: int = 1024
    MAX_SHARED_MEMORY_PER_BLOCK: int = 48 << 10
    WARP_SIZE: int = 32
    compute_capability: tuple[int, int] = _CAPABILITY
    name: bytes = CPU_DEVICE.encode()
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
        declared: Signatures that the user gave to `cuda.jit` within the cell.
        kernels: By dispatcher and argument types.
        device_functions: Compiled within the cell: (dispatcher, argument types).

    """

    cuda: Any
    device: Device
    observer: Observer
    declared: dict[int, tuple[Any, list[tuple[Any, ...]]]] = field(default_factory=dict)
    kernels: dict[tuple[int, tuple[Any, ...]], tuple[Any, _Kernel]] = field(default_factory=dict)
    device_functions: list[tuple[Any, Any]] = field(default_factory=list)

    def declare(self, dispatcher: Any, signature: Any) -> None:
        """Note a signature; it is compiled when it is launched."""
        types, _ = self.cuda.core.sigutils.normalize_signature(signature)
        self.declared.setdefault(id(dispatcher), (dispatcher, []))[1].append(tuple(types))

    def call(self, dispatcher: Any, arguments: tuple[Any, ...], config: Any) -> None:
        """Launch a kernel: what `kernel[grid, block](...)` ends in."""
        if config.stream is not None and int(config.stream.handle):
            _refusal("stream")()
        values = [getattr(value, "value", value) if _is_hint(value) else value for value in arguments]
        arrays = [array for value in values for array in _arrays(value, self.device)]
        kernel = self._kernel(dispatcher, self._types(dispatcher, values))
        launch = Launch(
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
        """Leave Numba's own tables as they were before the cell."""
        for dispatcher, types in self.device_functions:
            if compiled := dispatcher.overloads.pop(types, None):
                compiled.target_context.remove_user_function(compiled.entry_point)
        for dispatcher, _ in self.declared.values():
            # Numba holds it for compiled; now it will be when it is launched on a GPU.
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
                f"{dispatcher.__name__} takes no {len(given)} arguments",
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
        """Flatten one argument to the kernel's parameters, as Numba's calling convention lays it out."""
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
                f"An argument of Numba's type {kind} cannot be passed to a kernel on the {CPU_DEVICE}",
                fix="pass arrays, numbers and tuples of them",
                code="gpu.bad-argument",
            )


def _is_hint(value: Any) -> bool:
    """Whether it is `cuda.In(...)` or one of its kind: here all arrays are copied both ways."""
    from numba.cuda.args import ArgHint  # type: ignore[import-not-found,unused-ignore]

    return isinstance(value, ArgHint)


def _host(value: Any, device: Device) -> Array | None:
    """The array to be copied for an argument; None if it lies on this device already, or is no array."""
    if isinstance(value, SimulatedArray):
        return None if value.memory.device is device else value.array
    return host_array(value)


def _arrays(value: Any, device: Device) -> Iterator[Array]:
    """All arrays to be copied, those within tuples too, in the order of the parameters."""
    if isinstance(value, tuple):
        for inner in value:
            yield from _arrays(inner, device)
    elif (array := _host(value, device)) is not None:
        yield array


def _array_words(value: Any, device: Device, addresses: Iterator[int]) -> Iterator[int]:
    """Numba's array: meminfo, parent, items, bytes of an item, address, shape, strides in bytes."""
    host = _host(value, device)
    array, address = (value.array, value.address) if host is None else (host, next(addresses))
    yield from (0, 0, array.size, array.itemsize, address, *array.shape, *array.strides)


def _sized(words: Sequence[int | bytes], sizes: Sequence[int]) -> list[bytes]:
    """Whole numbers in the size of their parameters; negative ones in two's complement."""
    return [
        word if isinstance(word, bytes) else (word & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        for word, size in zip(words, sizes, strict=True)
    ]
