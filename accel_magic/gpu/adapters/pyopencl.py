"""PyOpenCL: kernels that are launched within the cell run as traced copies, wherever their programs were built.

A kernel with programs in it must not run after the cell, when the maps are gone. So the user's programs and kernels are
left as they are: each kernel that is launched gets a second one, with programs in it, from the same source or SPIR-V,
which gets the same arguments and runs in its place.
"""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import time
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from accel_magic.devices.launches import KernelSource, LaunchRequest
from accel_magic.devices.opencl import opencl_library
from accel_magic.devices.targets import SPIRV
from accel_magic.errors import AccelMagicError
from accel_magic.gpu.adapters import opencl_kernels
from accel_magic.gpu.adapters.patching import absent, replaced, substituted
from accel_magic.gpu.codegen import opencl_c
from accel_magic.gpu.inject.spirv import spirv_limits
from accel_magic.gpu.inject.spirv.spirv_limits import MOST_LANES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from accel_magic.devices.launches import Observer
    from accel_magic.devices.opencl.opencl_library import OpenClDevice
    from accel_magic.devices.opencl.opencl_memory import OpenClMemory

NAME: Final = "PyOpenCL"
_SETTERS: Final = {
    "set_arg": 0,
    "_set_arg_null": 0,
    "_set_arg_buf": 0,
    "_set_arg_svm": 0,
    "_set_arg_multi": 2,
    "_set_arg_buf_multi": 2,
    "_set_arg_buf_pack_multi": 3,
}
"""Methods that set arguments: 0 takes a number and its argument, the others a tuple with so many words per argument."""
_G_TIMES_L: Final = 2
"""Place, after the sizes, of whether the first size counts work-groups."""
_NEEDED: Final = (
    *("Program.build", *(f"Kernel.{name}" for name in _SETTERS)),
    *("_cl.enqueue_nd_range_kernel", "_cl._create_program_with_il", "enqueue_nd_range_kernel"),
)
_OF_SPIRV: Final = ("-cl-", "-w", "-Werror")
"""Beginnings of build options that programs from SPIR-V take too."""


def adapter(memory: OpenClMemory | None) -> PyOpenClAdapter:
    """Create the adapter, for kernels of the device that accesses this memory."""
    return PyOpenClAdapter(memory)


@dataclass(frozen=True)
class PyOpenClAdapter:
    """Watches kernels' arguments and launches."""

    memory: OpenClMemory | None
    name: str = NAME

    def missing(self) -> str:
        """Return why PyOpenCL cannot be watched; '' if it can."""
        module = sys.modules.get("pyopencl")
        if module is None:
            return "PyOpenCL is not imported"
        if self.memory is None:
            return "OpenCL's kernels are traced with --device opencl"
        names = absent(module, _NEEDED)
        return f"PyOpenCL {module.VERSION_TEXT} has no {names}; PyOpenCL 2026 has them" if names else ""

    @contextmanager
    def install(self, observer: Observer) -> Iterator[None]:
        """Watch PyOpenCL until the context ends."""
        cl: Any = sys.modules["pyopencl"]
        if self.memory is None:
            raise RuntimeError("there is no device")
        cell = _Cell(observer, cl, self.memory)
        with ExitStack() as stack:
            stack.callback(cell.close)
            for name, entry in _SETTERS.items():
                stack.enter_context(replaced(cl.Kernel, name, cell.argument(getattr(cl.Kernel, name), entry)))
            stack.enter_context(replaced(cl.Program, "build", cell.build(cl.Program.build)))
            own = cl._cl._create_program_with_il  # noqa: SLF001 - how it makes programs from SPIR-V
            stack.enter_context(replaced(cl._cl, "_create_program_with_il", cell.with_il(own)))  # noqa: SLF001
            launch = cl._cl.enqueue_nd_range_kernel  # noqa: SLF001 - what calls of kernels call
            watched = cell.launch(launch)
            stack.enter_context(replaced(cl._cl, "enqueue_nd_range_kernel", watched))  # noqa: SLF001
            stack.enter_context(substituted([(launch, watched)], ("pyopencl._cl", "accel_magic.")))
            yield


@dataclass(frozen=True)
class _Code:
    """What a program is built from: SPIR-V, or else OpenCL C."""

    il: bytes
    source: str
    options: tuple[str, ...]
    program: Any = None


@dataclass(frozen=True)
class _Traced:
    """A program with the trace's programs in it.

    Attributes:
        program: The PyOpenCL program; None if there is none.
        original: The user's program, kept so that no other one gets its number.
        refused: Why its kernels are not traced; "" if they are, or if the observer knows.
        source: What was given to the observer; None if nothing was.
        uses_lanes: Whether programs look at all lanes of a sub-group.

    """

    program: Any
    original: Any
    refused: str = ""
    source: KernelSource[bytes] | None = None
    uses_lanes: bool = False


@dataclass
class _Twin:
    """The traced copy of a kernel.

    Attributes:
        kernel: The copy; None if the kernel is not traced.
        original: The user's kernel.
        traced: The copy's program.
        number: What programs read as `kernel`; None if the observer does not know the kernel.
        arguments: Numbers of the arguments that were set within the cell.
        refused: Why the copy does not run; "" if it does.
        is_checked: Whether a launch has been checked.
        lanes: For each size of work-groups, the lanes of sub-groups, as `_Cell._lanes` returns them.

    """

    kernel: Any
    original: Any
    traced: _Traced
    number: int | None = None
    arguments: set[int] = field(default_factory=set)
    refused: str = ""
    is_checked: bool = False
    lanes: dict[tuple[int, int, int], int | None] = field(default_factory=dict)


@dataclass
class _Cell:
    """The traced copies of a cell's kernels, by the numbers of the originals."""

    observer: Observer
    cl: Any
    memory: OpenClMemory
    open: bool = True
    codes: dict[int, _Code] = field(default_factory=dict)
    programs: dict[int, _Traced] = field(default_factory=dict)
    twins: dict[int, _Twin] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    own: threading.local = field(default_factory=threading.local)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        """Forget the copies."""
        self.open = False
        for kept in (self.twins, self.programs, self.codes):
            kept.clear()

    @property
    def device(self) -> OpenClDevice:
        """The traced device."""
        return self.memory.device

    @property
    def watches(self) -> bool:
        """Whether a call is the user's, not the tool's own."""
        return self.open and not getattr(self.own, "working", False)

    def build(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `Program.build`: remember what was built from source."""

        def build(program: Any, options: Any = None, *rest: Any, **named: Any) -> Any:
            source = vars(program).get("_source", "")
            done = own(program, options, *rest, **named)
            if self.watches and source:
                text = source.decode(errors="replace") if isinstance(source, bytes) else source
                self.codes[program.int_ptr] = _Code(b"", text, self._options(program), program)
            return done

        return build

    def with_il(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap the making of programs from SPIR-V: remember it."""

        def create(context: Any, code: bytes) -> Any:
            program = own(context, code)
            if self.watches:
                self.codes[program.int_ptr] = _Code(bytes(code), "", (), program)
            return program

        return create

    def argument(self, own: Callable[..., Any], entry: int) -> Callable[..., Any]:
        """Wrap a method that sets arguments: the copy gets them too. `entry` is as in `_SETTERS`."""

        def set_argument(kernel: Any, *given: Any) -> Any:
            done = own(kernel, *given)
            if self.watches and (twin := self.twin(kernel)).kernel is not None:
                own(twin.kernel, *given)
                twin.arguments.update(given[0][::entry] if entry else given[:1])
            return done

        return set_argument

    def launch(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap launches: the copy runs in the kernel's place."""

        def enqueue(queue: Any, kernel: Any, global_size: Any, local_size: Any, *rest: Any, **named: Any) -> Any:
            if not self.watches:
                return own(queue, kernel, global_size, local_size, *rest, **named)
            twin = self.twin(kernel)
            multiplied = rest[_G_TIMES_L] if len(rest) > _G_TIMES_L else named.get("g_times_l", False)
            grid, block = self._grid(queue, kernel, global_size, local_size, multiplied=multiplied)
            runs = twin.kernel if self._may_run(twin, block) else kernel
            request = LaunchRequest(
                NAME,
                kernel.function_name,
                grid,
                block,
                shared_bytes=0,
                stream=queue.int_ptr,
                time_ns=time.monotonic_ns(),
                number=next(self.numbers),
                kernel_number=-1 if twin.number is None else twin.number,
                lanes=self._lanes(twin, runs, block),
            )
            self.observer.launching(request)
            done = own(queue, runs, global_size, local_size, *rest, **named)
            self.observer.launched(replace(request, returned_ns=time.monotonic_ns()))
            return done

        return enqueue

    def twin(self, kernel: Any) -> _Twin:
        """The traced copy of a kernel, made when it is first seen."""
        with self.lock:
            found = self.twins.get(kernel.int_ptr)
            if found is None:
                self.own.working = True
                try:
                    found = self._new(kernel)
                finally:
                    self.own.working = False
                self.twins[kernel.int_ptr] = found
        return found

    def _new(self, kernel: Any) -> _Twin:
        try:
            program = opencl_kernels.program_of(kernel) or kernel.program
        except self.cl.Error:
            reason = "its program is gone: run %load_ext accel_magic before the kernel is made, or make it in the cell"
            self.observer.skipped(kernel.function_name, reason)
            return _Twin(None, kernel, _Traced(None, None, reason))
        number = program.int_ptr
        if number not in self.programs:
            self.programs[number] = self._traced(program)
        traced = self.programs[number]
        if traced.refused:
            self.observer.skipped(kernel.function_name, traced.refused)
        copy = None if traced.program is None else self.cl.Kernel(traced.program, kernel.function_name)
        if copy is not None:
            self.memory.attach(copy.int_ptr)
        source = traced.source
        named = None if source is None else self.observer.number(source, kernel.function_name)
        return _Twin(copy, kernel, traced, named)

    def _traced(self, program: Any) -> _Traced:
        names = tuple(str(program.get_info(self.cl.program_info.KERNEL_NAMES)).split(";"))
        source = None
        try:
            code = self._code(program)
            module = code.il or self._compiled(code)
            if not self.memory.bind(program.get_info(self.cl.program_info.CONTEXT).int_ptr):
                raise spirv_limits.not_traced(
                    "its context is another one than that of the first traced kernel, where the maps are",
                    "use one context",
                )
            source = KernelSource(NAME, names, module, SPIRV)
            changed = self.observer.rewrite(source)
            if changed == module:
                return _Traced(None, program, source=source)
            uses_lanes = spirv_limits.uses_lanes(self.device, module, changed)
            options = [one for one in code.options if one.startswith(_OF_SPIRV) and not one.startswith("-cl-std")]
            made = self.cl.Program(program.get_info(self.cl.program_info.CONTEXT), changed)
            with warnings.catch_warnings(action="ignore"):  # about the compiler's output
                made.build(options)
            return _Traced(made, program, source=source, uses_lanes=uses_lanes)
        except (AccelMagicError, self.cl.Error) as error:
            reason = (error.why or error.what) if isinstance(error, AccelMagicError) else _first_line(error)
            if source is None:
                return _Traced(None, program, reason)
            self.observer.withdrawn(source, reason)
            return _Traced(None, program, source=source)

    def _code(self, program: Any) -> _Code:
        """What a program was built from. Raises ProgramError if that is not known."""
        if program.int_ptr in self.codes:
            return self.codes[program.int_ptr]
        devices = program.get_info(self.cl.program_info.DEVICES)
        if self.device.handle not in [one.int_ptr for one in devices]:
            raise spirv_limits.not_traced(
                f"it is built for another device than {self.device.name}", "choose that one: --gpu N"
            )
        il, source = opencl_library.program_code(program.int_ptr)
        if not il and not source:
            source = self._source_of(program.int_ptr)
        return _Code(il, source, self._options(program))

    def _options(self, program: Any) -> tuple[str, ...]:
        """What a program was built with: PyOpenCL adds its own options, such as the folder of its headers."""
        first, *_ = program.get_info(self.cl.program_info.DEVICES)
        return opencl_c.options_of(program.get_build_info(first, self.cl.program_build_info.OPTIONS))

    def _source_of(self, number: int) -> str:
        """The source of a program that PyOpenCL has loaded from its cache of binaries: its object may still have it.

        Raises ProgramError if that object is gone.
        """
        for one in gc.get_objects():
            if type(one) is self.cl.Program and (source := vars(one).get("_source")) and one.int_ptr == number:
                return source.decode(errors="replace") if isinstance(source, bytes) else str(source)
        raise spirv_limits.not_traced(
            "its program was loaded as a binary, and its source is gone", "build its program in the cell"
        )

    def _compiled(self, code: _Code) -> bytes:
        made = opencl_c.compiled(code.source, code.options, max(self.device.spirv), self.device.version)
        if not made.has_lines:
            self.observer.noted(opencl_c.NO_LINES)
        return made.code

    def _may_run(self, twin: _Twin, block: tuple[int, int, int]) -> bool:
        if twin.kernel is None or twin.refused:
            return False
        if not twin.is_checked:
            twin.is_checked = True
            twin.refused = self._refused(twin, block)
            if twin.refused:
                self.observer.skipped(twin.original.function_name, twin.refused)
        return not twin.refused

    def _refused(self, twin: _Twin, block: tuple[int, int, int]) -> str:
        """Why the copy cannot run; "" if it can."""
        if len(twin.arguments) < twin.original.num_args:
            return "some of its arguments were set before the cell"
        if not twin.traced.uses_lanes:
            return ""
        lanes = self._most_lanes(twin.kernel, block)
        if lanes is None or lanes <= MOST_LANES:
            return ""
        return f"the programs look at {MOST_LANES} lanes, and its sub-groups have {lanes}"

    def _most_lanes(self, kernel: Any, block: tuple[int, int, int]) -> int | None:
        """The most lanes of a kernel's sub-groups; None if the driver does not say."""
        found = [one for one in kernel.context.devices if one.int_ptr == self.device.handle]
        what = self.cl.kernel_sub_group_info.MAX_SUB_GROUP_SIZE_FOR_NDRANGE
        try:
            return int(kernel.get_sub_group_info(found[0], what, list(block))) if found else None
        except self.cl.Error:
            return None

    def _lanes(self, twin: _Twin, runs: Any, block: tuple[int, int, int]) -> int | None:
        """The lanes of a launch's sub-groups; None if its work-groups have several axes, or the driver does not say."""
        if block not in twin.lanes:
            twin.lanes[block] = self._most_lanes(runs, block) if block[1:] == (1, 1) else None
        return twin.lanes[block]

    def _grid(
        self, queue: Any, kernel: Any, global_size: Any, local_size: Any, *, multiplied: bool
    ) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """Work-groups and work-items per group in x, y, z; the driver's choice if none was given."""
        items = _three(global_size)
        if local_size is None:
            count = len(tuple(global_size))
            block = opencl_library.suggested_local_size(self.device, queue.int_ptr, kernel.int_ptr, items[:count])
            block = _three(block)
        else:
            block = _three(local_size)
            if multiplied:
                return items, block
        grid = [-(-whole // part) for whole, part in zip(items, block, strict=True)]
        return (grid[0], grid[1], grid[2]), block


def _three(size: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = [*map(int, size), 1, 1][:3]
    return x, y, z


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines[1:] if "error" in line.lower()), lines[0] if lines else type(error).__name__)
