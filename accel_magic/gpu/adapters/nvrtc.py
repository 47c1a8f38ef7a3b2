"""CUDA C without a framework: compiled by NVRTC, run on the simulated device by `CpuKernel`."""

from __future__ import annotations

import ctypes
import ctypes.util
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from accel_magic.demangle import means
from accel_magic.devices.launches import Code, KernelSource, LaunchRequest
from accel_magic.devices.sim.simulated_device import ARCH
from accel_magic.devices.sim.variables import sizes
from accel_magic.errors import MachineError, ProbeError, ProgramError
from accel_magic.gpu.adapters.images import Surface, Texture
from accel_magic.gpu.adapters.simulated import copied, host_array, run, three
from accel_magic.gpu.adapters.tensor_maps import TensorMap
from accel_magic.ptx.entries import EntryParameter, architecture, entries
from accel_magic.ptx.parser import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from accel_magic.devices.launches import Observer
    from accel_magic.gpu.adapters.simulated import AdapterDevice, Array

__all__ = ["CpuKernel", "Surface", "TensorMap", "Texture", "compile", "kernels_run_on"]
NAME: Final = "NVRTC"
_WHEELS: Final = ("cu13/lib", "cuda_nvrtc/lib")
"""Folders of the library in the namespace package `nvidia`: of wheels for CUDA 13, and of older ones."""
FIX: Final = "pip install nvidia-cuda-nvrtc"


def compile(  # noqa: A001
    source: str, names: Sequence[str] = (), arch: str = ARCH, *, options: Sequence[str] = ("-lineinfo",)
) -> str:
    """Compile CUDA C++ to PTX.

    Args:
        source: The program; headers that it includes must be in folders that `options` name with `-I`.
        names: Template instances to compile: `scale<float>`.
        arch: `sm_80`, or another architecture that NVRTC supports.
        options: Passed to NVRTC.

    Raises:
        MachineError: NVRTC is not installed.
        ProgramError: The program does not compile; `why` is the compiler's log.

    """
    library = _library()
    program = ctypes.c_void_p()
    _check(library, library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None))
    try:
        for name in names:
            _check(library, library.nvrtcAddNameExpression(program, name.encode()))
        given = [f"-arch={arch}".encode(), *(option.encode() for option in options)]
        if library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given)):
            log = _text(library, program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog).strip()
            raise ProgramError(
                "the CUDA program does not compile",
                why=log,
                fix="correct the line named in the message",
                code="gpu.kernel-does-not-compile",
            )
        return _text(library, program, library.nvrtcGetPTXSize, library.nvrtcGetPTX)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _text(library: Any, program: ctypes.c_void_p, size_of: Any, get: Any) -> str:
    size = ctypes.c_size_t()
    _check(library, size_of(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(library, get(program, buffer))
    return buffer.value.decode()


def _check(library: Any, result: int) -> None:
    if result:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise ProgramError(f"NVRTC failed: {library.nvrtcGetErrorString(result).decode()}", code="gpu.nvrtc-failed")


def is_installed() -> bool:
    """Whether there is a file of NVRTC's library; it is not loaded."""
    return any(_candidates())


@cache
def _library() -> Any:
    """Load NVRTC from its wheel, or else from the system's library path."""
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise MachineError(
        "NVRTC, NVIDIA's compiler for CUDA C, is not installed",
        why="no libnvrtc.so was found",
        fix=FIX,
        code="gpu.no-nvrtc",
    )


def _candidates() -> Iterator[str]:
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for folder in _WHEELS:
            for path in sorted((Path(root) / folder).glob("libnvrtc.so.*"), reverse=True):
                if "alt" not in path.name:
                    yield str(path)
    if found := ctypes.util.find_library("nvrtc"):
        yield found


@dataclass(eq=False)
class _Runner:
    """The device that runs kernels, the observer, and the modules loaded so far, by their text."""

    device: AdapterDevice
    observer: Observer
    modules: dict[str, Any] = field(default_factory=dict)
    _loading: threading.Lock = field(default_factory=threading.Lock)

    def module(self, ptx: str) -> Any:
        with self._loading:  # once, even if several threads launch at the same time
            if ptx not in self.modules:
                source = KernelSource(NAME, tuple(entries(ptx)), ptx, architecture(ptx))
                self.modules[ptx] = self.device.load(self.observer.rewrite(source))
                for name, content in _CONTENTS.get(ptx, {}).items():
                    self._write(ptx, name, content)
            return self.modules[ptx]

    def write(self, ptx: str, name: str, content: bytes) -> None:
        """Write a variable of a module, if the module is loaded."""
        with self._loading:
            if ptx in self.modules:
                self._write(ptx, name, content)

    def _write(self, ptx: str, name: str, content: bytes) -> None:
        address, size = self.modules[ptx].globals[name]
        self.device.view(address, size)[:] = np.frombuffer(content, np.uint8)


_CELLS: Final[list[_Runner]] = []
"""Running traced cells, the innermost last. Global, because threads that a cell starts belong to it."""

_CONTENTS: Final[dict[str, dict[str, bytes]]] = {}
"""What `CpuKernel.set` wrote to the variables of each module, by its text: modules that are loaded later get it too."""


@contextmanager
def kernels_run_on(device: AdapterDevice, observer: Observer) -> Iterator[None]:
    """Run `CpuKernel`s on this device and report them to the observer until the context ends."""
    runner = _Runner(device, observer)
    _CELLS.append(runner)
    try:
        yield
    finally:
        _CELLS.remove(runner)


@dataclass(frozen=True)
class CpuKernel:
    """A kernel that `kernel[grid, block](...)` runs on the simulated device.

    Within a traced cell it is traced; elsewhere it runs untraced, on a separate device.

    Args:
        ptx: The module.
        name: The kernel; optional if the module has only one.
        together: Whether launches are cooperative, see `cooperative`.

    """

    ptx: str
    name: str = ""
    together: bool = False

    def __post_init__(self) -> None:
        found = entries(self.ptx)
        name = self.name or (next(iter(found)) if len(found) == 1 else "")
        if name not in found:
            raise ProbeError(
                f"the module has no kernel {name!r}" if name else "no kernel of the module was named",
                why=f"its kernels: {', '.join(found) or 'none'}",
                fix='name one of them; extern "C" keeps a function\'s name unmangled',
                code="gpu.no-kernel",
            )
        object.__setattr__(self, "name", name)

    @property
    def cooperative(self) -> CpuKernel:
        """The same kernel, launched so that its blocks may wait for each other: `grid.sync()` of cooperative groups.

        All blocks run at the same time; a launch of more blocks than can do so raises ProbeError.
        """
        return replace(self, together=True)

    def __getitem__(self, launch: Any) -> Callable[..., None]:
        """Set the launch: (grid, block) or (grid, block, bytes of dynamic shared memory)."""
        if not isinstance(launch, tuple) or len(launch) not in (2, 3):
            raise ProbeError(
                f"{self.name}[...] takes a grid and a block",
                fix=f"write {self.name}[blocks, threads](...)",
                code="gpu.bad-launch-shape",
            )
        grid, block, shared = (*launch, 0)[:3]

        def call(*arguments: Any) -> None:
            self._run(three(grid), three(block), int(shared), arguments)

        return call

    def set(self, name: str, value: Any) -> None:
        """Set a `__constant__` or `__device__` variable of the module, for all later launches of its kernels.

        Within a traced cell, a module is loaded anew: its variables have these values, or else their initial ones.

        Args:
            name: The variable, mangled or demangled.
            value: A number for a scalar, or bytes or an array of the variable's size.

        Raises:
            ProbeError: There is no such variable, or the value does not fit.

        """
        variable, kind = self._variable(name)
        array = host_array(value)
        given = value if array is None else np.ascontiguousarray(array).tobytes()
        content = _packed(given, [], kind, f"the value of {name}", "the variable has")
        _CONTENTS.setdefault(self.ptx, {})[variable] = content
        for runner in (*_CELLS, _untraced()):
            runner.write(self.ptx, variable, content)

    def _variable(self, name: str) -> tuple[str, EntryParameter]:
        known = _variables(self.ptx)
        found = [one for one in known if one == name] or [one for one in known if means(name, one)]
        if len(found) == 1:
            return found[0], known[found[0]]
        raise ProbeError(
            f"{name!r} is {'ambiguous' if found else 'not a variable of the module'}",
            why=f"its variables: {', '.join(found or known) or 'none'}; the compiler omits those that nothing uses",
            fix="name one of them" if known else "declare it __constant__ or __device__, and use it in a kernel",
            code="gpu.no-variable",
        )

    def _run(
        self, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, arguments: tuple[Any, ...]
    ) -> None:
        runner = _CELLS[-1] if _CELLS else _untraced()
        parameters = entries(self.ptx)[self.name]
        if len(arguments) != len(parameters):
            raise ProbeError(
                f"{self.name} takes {len(parameters)} arguments, not {len(arguments)}", code="gpu.wrong-argument-count"
            )
        held = [_arrays(value) for value in arguments]
        with copied(runner.device, [array for one in held for array in one]) as addresses, ExitStack() as stack:
            left, values = iter(addresses), []
            for place, (given, own, parameter) in enumerate(zip(arguments, held, parameters, strict=True), 1):
                value, where = given, [next(left) for _ in own]
                if isinstance(given, Surface | TensorMap):
                    value, where = stack.enter_context(given.on_device(runner.device, where)), []
                values.append(_packed(value, where, parameter, f"argument {place}", "the kernel takes"))
            launch = LaunchRequest(
                NAME, self.name, grid, block, shared, 0, time.monotonic_ns(), cooperative=self.together
            )
            run(runner.device, runner.observer, runner.module(self.ptx), launch, values)


def _arrays(value: object) -> tuple[Array, ...]:
    """Return the arrays that an argument needs on the device."""
    if isinstance(value, Surface | TensorMap):
        return value.arrays
    array = host_array(value)
    return () if array is None else (array,)


@lru_cache(maxsize=64)
def _variables(ptx: str) -> dict[str, EntryParameter]:
    """Find the variables of a module in global and constant memory."""
    declared = (
        (item, one)
        for item in parse(ptx).variables
        if item.space in ("global", "const") and item.linkage != "extern"
        for one in item.names
    )
    return {
        one.name: EntryParameter(item.type[0], sizes(item, one)[0], array=bool(one.dimensions) or item.vector > 1)
        for item, one in declared
    }


def _packed(value: Any, addresses: Sequence[int], parameter: EntryParameter, what: str, takes: str) -> bytes:
    """Return the bytes of one value, an argument or a variable's content; of an array, which has an address, that."""
    if addresses:
        return _sized(addresses[0].to_bytes(8, "little"), parameter, f"{what}, an array,", takes)
    if isinstance(value, bytes | np.generic):
        content = value if isinstance(value, bytes) else value.tobytes()
        return _sized(content, parameter, f"{what}, {type(value).__name__},", takes)
    if isinstance(value, bool | int) and parameter.kind != "f" and not parameter.array:
        return (int(value) & ((1 << 8 * parameter.size) - 1)).to_bytes(parameter.size, "little")
    if isinstance(value, float | int) and parameter.kind in "fb" and parameter.size in (2, 4, 8):
        return np.array(value, f"<f{parameter.size}").tobytes()
    raise ProbeError(
        f"{what} is {type(value).__name__}, but {takes} {parameter.size} bytes",
        fix="pass numbers or numpy scalars, numpy arrays for pointers, and bytes for structs",
        code="gpu.bad-argument",
    )


def _sized(content: bytes, parameter: EntryParameter, what: str, takes: str) -> bytes:
    if len(content) != parameter.size:
        raise ProbeError(
            f"{what} is {len(content)} bytes, but {takes} {parameter.size}",
            fix="use a numpy type of that size: np.float32(x), np.int64(n)",
            code="gpu.bad-argument",
        )
    return content


class _Untraced:
    """An observer that does nothing."""

    def rewrite(self, kernel: KernelSource[Code]) -> Code:
        return kernel.code

    def launching(self, launch: LaunchRequest) -> None:
        pass

    def launched(self, launch: LaunchRequest) -> None:
        pass

    def skipped(self, name: str, reason: str) -> None:
        pass

    def withdrawn(self, source: KernelSource[Any], reason: str) -> None:
        pass

    def noted(self, note: str) -> None:
        pass

    def number(self, source: KernelSource[Any], name: str) -> int | None:  # noqa: ARG002 - the same for all
        return None


@cache
def _untraced() -> _Runner:
    from accel_magic.devices.sim import SimulatedDevice

    return _Runner(SimulatedDevice(), _Untraced())
