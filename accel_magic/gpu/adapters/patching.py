"""Temporary replacement of attributes and environment variables, and what adapters share."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from typing import TYPE_CHECKING, Any, Final

from accel_magic.devices.launches import KernelSource
from accel_magic.ptx.entries import architecture, entries, variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from accel_magic.devices.launches import Observer


_NOTHING = object()


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Set `owner.name` until the context ends, then restore it; delete it if it was inherited or absent."""
    before = vars(owner).get(name, _NOTHING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _NOTHING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables until the context ends, then restore those that nobody else has changed."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if os.environ.get(name) != values[name]:
                continue
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def substituted(pairs: Sequence[tuple[object, object]], apart_from: tuple[str, ...]) -> Iterator[None]:
    """Replace objects in all modules that have them under some name, until the context ends.

    For classes and functions that users bind with `from package import name` before the traced cell.

    Args:
        pairs: (old object, its replacement). Names bound meanwhile are restored too.
        apart_from: Prefixes of the names of modules that keep the old objects.

    """
    _rebind({id(old): new for old, new in pairs}, apart_from)
    try:
        yield
    finally:
        _rebind({id(new): old for old, new in pairs}, ())


def _rebind(new: Mapping[int, object], apart_from: tuple[str, ...]) -> None:
    for module_name, module in list(sys.modules.items()):
        if apart_from and module_name.startswith(apart_from):
            continue
        try:
            # Bypasses the module's own `__getattribute__`: any attribute access would import a lazy module.
            names: dict[str, object] = object.__getattribute__(module, "__dict__")
        except AttributeError:
            continue
        for name in [name for name, value in list(names.items()) if id(value) in new]:
            names[name] = new[id(names[name])]


def absent(owner: Any, names: Iterable[str]) -> str:
    """List the dotted names that `owner` lacks, '' if none: the feature test of an adapter."""
    return ", ".join(name for name in names if not _has(owner, name.split(".")))


def _has(owner: Any, parts: list[str]) -> bool:
    for part in parts:
        if not hasattr(owner, part):
            return False
        owner = getattr(owner, part)
    return True


@contextmanager
def on_import(names: Iterable[str], imported: Callable[[str], None]) -> Iterator[None]:
    """Call `imported(name)` once, right after each named module is imported, until the context ends.

    A failed import is not reported and may be repeated.
    """
    finder = _Finder(set(names), imported)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        # A running loader keeps the finder alive; it must not report any more.
        finder.waiting.clear()
        sys.meta_path.remove(finder)


class _Finder(MetaPathFinder):
    """Finds nothing itself: asks the other finders, and wraps their loader in one that reports."""

    def __init__(self, waiting: set[str], imported: Callable[[str], None]) -> None:
        self.waiting = waiting
        self.imported = imported

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.waiting:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self)
                return spec
        return None


class _Loader(Loader):
    """The module's own loader, with a report after it has finished."""

    def __init__(self, own: Any, finder: _Finder) -> None:
        self._own = own
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The module must have its own loader: resources are read through it, and some modules inspect it.
        name, module.__loader__ = module.__name__, self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        if name in self._finder.waiting:
            self._finder.waiting.discard(name)
            self._finder.imported(name)


OLDER: Final = "it was not compiled within the cell, and loaded modules have no PTX"
GRAPH: Final = "it is recorded into a CUDA graph, which may be launched after the cell"
SHARED_LIMIT: Final = 48 << 10
"""Bytes of dynamic shared memory that a kernel may use without an attribute (CUDA C++ Programming Guide)."""


def rewritten(observer: Observer, framework: str, ptx: str) -> str:
    """Return a module with programs in it; '' if nothing is inserted, or if the module cannot be copied."""
    names = tuple(entries(ptx))
    if not names:
        return ""
    if shared := variables(ptx):
        for name in names:
            observer.skipped(
                name,
                f"its module has device variables ({', '.join(shared[:3])}), which a traced copy cannot share",
            )
        return ""
    text = observer.rewrite(KernelSource(framework, names, ptx, architecture(ptx)))
    return "" if text == ptx else text


def assembled(driver: Any, text: str) -> bytes:
    """Assemble PTX for the current context's GPU, which may be newer than the PTX's target.

    For modules that the user loads as machine code: the driver may be older than the compiler, and not know its
    version of PTX.

    Raises:
        ProgramError: The assembler rejects the module.
        MachineError: There is no assembler.

    """
    from accel_magic.gpu.codegen.assemble import assemble

    given, here = architecture(text), _architecture(driver)
    return assemble(text, given if given.rstrip("af") == here or not here else here).cubin


def _architecture(driver: Any) -> str:
    """Return the architecture of the current context's GPU, e.g. sm_80; '' if the driver does not report it."""
    kinds = driver.CUdevice_attribute
    error, device = driver.cuCtxGetDevice()
    numbers = []
    for kind in (
        kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
    ):
        error, number = (error, 0) if int(error) else driver.cuDeviceGetAttribute(kind, device)
        numbers.append(number)
    return "" if int(error) else "sm_{}{}".format(*numbers)


def called_by(packages: tuple[str, ...]) -> bool:
    """Whether the calling function was itself called from one of these packages.

    Frameworks that are imported within the cell bind the replacements of watched functions.
    """
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith(packages)  # noqa: SLF001 - the only way to find the caller


def recorded(driver: Any, stream: int) -> bool:
    """Whether launches into this stream are recorded into a graph instead of executed."""
    error, status = driver.cuStreamIsCapturing(driver.CUstream(stream))
    return not int(error) and int(status) != int(driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


def allow_shared(driver: Any, kernel: Any, size: int) -> None:
    """Allow a traced copy as much dynamic shared memory as its launch uses, as the user did for the kernel itself."""
    if size <= SHARED_LIMIT:
        return
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    if isinstance(kernel, driver.CUkernel):
        driver.cuKernelSetAttribute(attribute, size, kernel, driver.cuCtxGetDevice()[1])
    else:
        driver.cuFuncSetAttribute(kernel, attribute, size)
