"""Kernel functions that can be probed, and the modules that hold them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError
from accel_magic.probes.globs import is_glob, matcher
from accel_magic.probes.plan import Skipped

if TYPE_CHECKING:
    from collections.abc import Callable

_ROOT = Path("/")
KERNEL = "vmlinux"
"""How a spec may call the kernel itself, next to its modules."""

_TRACEFS = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
_TRACEABLE = "available_filter_functions"
_TRACEABLE_LINE = re.compile(r"^([^\s\[]+)(?: \(\S+\))?(?:[ \t]+\[(\S+)\])?$", re.MULTILINE)
_SYMBOL_LINE = re.compile(r"^([0-9a-f]+) [tTwW] (\S+)(?:\t\[(\S+)\])?$", re.MULTILINE)
_BLACKLIST_LINE = re.compile(r"^0x[0-9a-f]+-0x[0-9a-f]+\t(\S+)", re.MULTILINE)
_COLD = re.compile(r"\.cold(?:\.|$)")
# Padding before functions, linker marks, and entries for code that was generated at run time.
_NOT_FUNCTIONS = re.compile(r"__pfx_|__cfi_|__ftrace_invalid_address|\.L|_s?text$|_etext$|__crc_|__ksymtab_")
_GENERATED = ("bpf", "__builtin__ftrace", "__builtin__kprobes")
_MULTI_PROBES = "register_fprobe_ips"


@dataclass(frozen=True)
class KernelFunction:
    """One function that can be probed; `module` is '' for the kernel itself."""

    name: str
    module: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelFunctions:
    """All functions of a kernel: those that can be probed, and those that are left out with the reason."""

    functions: tuple[KernelFunction, ...]
    left_out: tuple[tuple[KernelFunction, str], ...]
    modules: frozenset[str]

    @cached_property
    def _by_name(self) -> dict[str, KernelFunction]:
        return {name: item for item in self.functions for name in (*item.aliases, item.name)}

    def match(self, module: str, pattern: str) -> tuple[list[KernelFunction], list[Skipped]]:
        """Functions whose name matches the glob, in `module` ('' = anywhere), and those that match but are left out.

        A compiler clone (`foo.isra.0`) also matches by its function's name where nothing else goes by it.
        """
        test = matcher(pattern)
        wanted = "" if module == KERNEL else module

        def inside(item: KernelFunction) -> bool:
            return not module or item.module == wanted

        skipped = [Skipped(item.name, why) for item, why in self.left_out if inside(item) and test(item.name)]
        if not is_glob(pattern) and pattern in self._by_name:
            found = self._by_name[pattern]
            return [_called(found, pattern)] if inside(found) else [], skipped
        matched = [
            _called(item, name) for item in self.functions if inside(item) and (name := self._matching_name(item, test))
        ]
        return sorted(matched, key=lambda item: (item.name, item.module)), skipped

    def _matching_name(self, item: KernelFunction, test: Callable[[str], bool]) -> str | None:
        name = next((name for name in (item.name, *item.aliases) if test(name)), None)
        plain, dot, _ = item.name.partition(".")
        return item.name if name is None and dot and plain not in self._by_name and test(plain) else name


def load(root: Path = _ROOT) -> KernelFunctions:
    """List the kernel's functions; kept until a module comes or goes.

    Args:
        root: Folder that stands for `/`.

    Raises:
        MachineError: Neither list of functions can be read.

    """
    return _load(root, loaded_modules(root))


@lru_cache(maxsize=4)
def _load(root: Path, modules: frozenset[str]) -> KernelFunctions:
    entries = _traceable(root)
    found, left_out = _sorted_out(entries if entries is not None else _symbols_without_blacklist(root))
    return KernelFunctions(found, left_out, modules | {item.module for item in found} - {""})


def loaded_modules(root: Path = _ROOT) -> frozenset[str]:
    """Modules that are loaded now; none on a kernel without modules."""
    return frozenset(line.split(" ", 1)[0] for line in _read(root / "proc/modules").splitlines())


def is_built_in(module: str, root: Path = _ROOT) -> bool:
    """Whether the kernel knows `module` although it is not loaded as one."""
    return (root / "sys/module" / module).is_dir() and module not in loaded_modules(root)


def check_supported(root: Path = _ROOT) -> None:
    """Make sure that this kernel has kprobes of either sort.

    Raises:
        MachineError: It has none.

    """
    if (root / "sys/bus/event_source/devices/kprobe").exists():
        return
    if any(name == _MULTI_PROBES for _, name, _ in _SYMBOL_LINE.findall(_read(root / "proc/kallsyms"))):
        return
    raise MachineError(
        "this kernel cannot probe its functions",
        why="it was built without CONFIG_KPROBES (there is no /sys/bus/event_source/devices/kprobe) and without "
        "CONFIG_FPROBE",
        fix="use what works here: tracepoint:CATEGORY:EVENT (system calls, scheduler, drivers' own events), "
        "uprobe:LIBRARY:FUNCTION, usdt:LIBRARY:PROVIDER:NAME; or boot a kernel with CONFIG_KPROBES=y",
    )


def exists(module: str, pattern: str, root: Path = _ROOT) -> bool:
    """Whether the kernel has a function of that name at all, traceable or not; reads the whole symbol table."""
    test = matcher(pattern)
    wanted = "" if module == KERNEL else module
    symbols = _SYMBOL_LINE.findall(_read(root / "proc/kallsyms"))
    return any(test(name) and (not module or in_module == wanted) for _, name, in_module in symbols)


def alias_of(known: KernelFunctions, module: str, name: str, root: Path = _ROOT) -> KernelFunction | None:
    """The traceable function that lies at the same address as `name`, under that name; reads the whole symbol table.

    ftrace lists one name of an address only: `__do_sys_getppid` for what is also called `__x64_sys_getppid`.
    """
    wanted = "" if module == KERNEL else module
    symbols = _SYMBOL_LINE.findall(_read(root / "proc/kallsyms"))
    places = {
        (address, in_module)
        for address, symbol, in_module in symbols
        if symbol == name and (not module or in_module == wanted) and int(address, 16)
    }
    if len(places) != 1:
        return None
    names = [symbol for address, symbol, in_module in symbols if (address, in_module) in places]
    found = next(
        (item for item in known.functions if item.name in names and item.module == next(iter(places))[1]), None
    )
    return None if found is None else KernelFunction(name, found.module, (found.name,))


def _traceable(root: Path) -> list[tuple[str, str, str]] | None:
    """(address unknown, name, module) of what ftrace can hook; None where the list may not be read."""
    for mount in _TRACEFS:
        text = _read(root / mount / _TRACEABLE)
        if text:
            return [("", name, module) for name, module in _TRACEABLE_LINE.findall(text)]
    return None


def _symbols_without_blacklist(root: Path) -> list[tuple[str, str, str]]:
    symbols = _SYMBOL_LINE.findall(_read(root / "proc/kallsyms"))
    if not symbols:
        raise MachineError(
            "the kernel's functions cannot be listed",
            why=f"neither {_TRACEABLE} in tracefs nor /proc/kallsyms can be read",
            fix="mount -t tracefs tracefs /sys/kernel/tracing, and run as root; see %accel_doctor",
        )
    banned = set(_BLACKLIST_LINE.findall(_read(root / "sys/kernel/debug/kprobes/blacklist")))
    return [symbol for symbol in symbols if symbol[1] not in banned]


def _sorted_out(
    entries: list[tuple[str, str, str]],
) -> tuple[tuple[KernelFunction, ...], tuple[tuple[KernelFunction, str], ...]]:
    kept: dict[tuple[str, str], list[str]] = {}
    seen: dict[str, int] = {}
    cold = []
    for address, name, module in entries:
        if module in _GENERATED or _NOT_FUNCTIONS.match(name):
            continue
        if _COLD.search(name):
            cold.append((KernelFunction(name, module), "it is the cold part of a function, not a function"))
            continue
        seen[name] = seen.get(name, 0) + 1
        # Symbols of one address are one function; where addresses are hidden each stands alone.
        place = address.strip("0")
        kept.setdefault((address, "") if place else (name, module), []).append(f"{name}\0{module}")
    functions: list[KernelFunction] = []
    doubled: dict[KernelFunction, str] = {}
    for same in kept.values():
        (first, module), *others = (entry.split("\0") for entry in same)
        aliases = tuple(name for name, _ in others if name != first)
        function = KernelFunction(first, module, aliases)
        if seen[first] > 1:
            unique = next((name for name in aliases if seen[name] == 1), None)
            if unique is None:
                times = f"{seen[first]} functions share this name"
                doubled[KernelFunction(first, module)] = f"{times}, and the kernel finds functions by name"
                continue
            function = KernelFunction(unique, module, tuple(name for name in aliases if name != unique))
        functions.append(function)
    return tuple(functions), (*cold, *doubled.items())


def _called(item: KernelFunction, name: str) -> KernelFunction:
    """Return the function under the one of its names that was asked for."""
    others = tuple(other for other in (item.name, *item.aliases) if other != name)
    return item if name == item.name else KernelFunction(name, item.module, others)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
