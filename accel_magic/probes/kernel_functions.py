"""Kernel functions that can be probed, and their modules."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError
from accel_magic.probes.globs import is_glob, matcher
from accel_magic.probes.plan import Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_ROOT = Path("/")
KERNEL = "vmlinux"
"""Name of the kernel itself in a spec, where a module's name would be."""

_TRACEFS = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
_TRACEABLE = "available_filter_functions"
_TRACEABLE_LINE = re.compile(r"^([^\s\[]+)(?: \(\S+\))?(?:[ \t]+\[(\S+)\])?$", re.MULTILINE)
_SYMBOL_LINE = re.compile(r"^([0-9a-f]+) [tTwW] (\S+)(?:\t\[(\S+)\])?$", re.MULTILINE)
_BLACKLIST_LINE = re.compile(r"^0x[0-9a-f]+-0x[0-9a-f]+\t(\S+)", re.MULTILINE)
_COLD = re.compile(r"\.cold(?:\.|$)")
# Padding before functions, and linker symbols.
_NOT_FUNCTIONS = re.compile(r"__pfx_|__cfi_|__ftrace_invalid_address|\.L|_s?text$|_etext$|__crc_|__ksymtab_")
_GENERATED = ("bpf", "__builtin__ftrace", "__builtin__kprobes")
_MULTI_PROBES = "register_fprobe_ips"


@dataclass(frozen=True)
class KernelFunction:
    """One function that can be probed; `module` is '' for the kernel itself."""

    name: str
    module: str
    aliases: tuple[str, ...] = ()


class KernelFunctions:
    """All functions of a kernel: those that can be probed, and those that are skipped with the reason.

    A kernel has tens of thousands, and most queries are about one module: each module's functions are processed on
    first use.

    Args:
        entries: (address or '', name, module) of every symbol that may be probed.
        modules: Modules that are loaded.

    """

    def __init__(self, entries: Sequence[tuple[str, str, str]], modules: frozenset[str]) -> None:
        self._entries: dict[str, list[tuple[str, str, str]]] = {}
        for entry in entries:
            self._entries.setdefault(entry[2], []).append(entry)
        for generated in _GENERATED:
            self._entries.pop(generated, None)
        self._times = Counter([name for _, name, _ in entries])
        self._sorted: dict[str, tuple[list[KernelFunction], list[tuple[KernelFunction, str]]]] = {}
        self._names: dict[str, dict[str, KernelFunction]] = {}
        self.modules = modules | set(self._entries) - {""}

    def inside(self, module: str = "") -> list[KernelFunction]:
        """Functions of a module that can be probed; '' means the kernel and all modules."""
        return [item for part in self._parts(module) for item in part[0]]

    def _parts(self, module: str) -> list[tuple[list[KernelFunction], list[tuple[KernelFunction, str]]]]:
        requested = [("" if module == KERNEL else module)] if module else list(self._entries)
        for name in requested:
            if name not in self._sorted:
                self._sorted[name] = _sorted_out(self._entries.get(name, ()), self._times)
        return [self._sorted[name] for name in requested]

    def match(self, module: str, pattern: str) -> tuple[list[KernelFunction], list[Skipped]]:
        """Functions whose name matches the glob, in `module` ('' = anywhere), and those that match but are skipped.

        A compiler clone (`foo.isra.0`) also matches by its function's name if no other symbol has that name.
        """
        if (alone := self._alone(module, pattern)) is not None:
            return [alone], []
        test = matcher(pattern)
        inside = self.inside(module)
        by_name = self._by_name(module)
        left_out = [entry for part in self._parts(module) for entry in part[1]]
        skipped = [Skipped(item.name, why) for item, why in left_out if test(item.name)]
        if not is_glob(pattern) and pattern in by_name:
            return [_called(by_name[pattern], pattern)], skipped
        matched = [
            _called(item, name)
            for item in inside
            if (name := _matching_name(item, test, by_name, self._times)) is not None
        ]
        return sorted(matched, key=lambda item: (item.name, item.module)), skipped

    def _by_name(self, module: str) -> dict[str, KernelFunction]:
        if module not in self._names:
            inside = self.inside(module)
            self._names[module] = {name: item for item in inside for name in (*item.aliases, item.name)}
        return self._names[module]

    def _alone(self, module: str, name: str) -> KernelFunction | None:
        """Shortcut: the only symbol with this name, if its address, and so its aliases, are unknown."""
        if self._times[name] != 1 or _NOT_FUNCTIONS.match(name) or _COLD.search(name):
            return None
        requested = [("" if module == KERNEL else module)] if module else list(self._entries)
        entries = (entry for part in requested for entry in self._entries.get(part, ()))
        found = next((entry for entry in entries if entry[1] == name), None)
        return KernelFunction(name, found[2]) if found and not found[0] else None


def _matching_name(
    item: KernelFunction, test: Callable[[str], bool], by_name: dict[str, KernelFunction], times: Counter[str]
) -> str | None:
    name = next((name for name in (item.name, *item.aliases) if test(name)), None)
    plain, dot, _ = item.name.partition(".")
    if name is None and dot and plain not in by_name and not times[plain] and test(plain):
        return item.name
    return name


def load(root: Path = _ROOT) -> KernelFunctions:
    """List the kernel's functions; cached until a module is loaded or removed.

    Args:
        root: Folder used as `/`.

    Raises:
        MachineError: Neither list of functions can be read.

    """
    return _load(root, loaded_modules(root))


@lru_cache(maxsize=4)
def _load(root: Path, modules: frozenset[str]) -> KernelFunctions:
    entries = _traceable(root)
    return KernelFunctions(entries if entries is not None else _symbols_without_blacklist(root), modules)


def loaded_modules(root: Path = _ROOT) -> frozenset[str]:
    """Modules that are currently loaded; none on a kernel without modules."""
    return frozenset(line.split(" ", 1)[0] for line in _read(root / "proc/modules").splitlines())


def is_built_in(module: str, root: Path = _ROOT) -> bool:
    """Whether `module` is built into the kernel."""
    return (root / "sys/module" / module).is_dir() and module not in loaded_modules(root)


def check_supported(root: Path = _ROOT) -> None:
    """Check that this kernel has kprobes or fprobes.

    Raises:
        MachineError: It has neither.

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
        code="kernel.no-kprobes",
    )


def symbols(root: Path = _ROOT) -> str:
    """Read the kernel's whole symbol table, some ten megabytes of text; '' if it is not readable."""
    return _read(root / "proc/kallsyms")


def exists(module: str, pattern: str, table: str) -> bool:
    """Whether the kernel's symbol `table` has a function with that name, traceable or not."""
    requested = "" if module == KERNEL else module
    if is_glob(pattern):
        test = matcher(pattern)
        found = [symbol for symbol in _SYMBOL_LINE.findall(table) if test(symbol[1])]
    else:
        found = _named(table, pattern)
    return any(not module or in_module == requested for _, _, in_module in found)


def alias_of(known: KernelFunctions, module: str, name: str, table: str) -> KernelFunction | None:
    """The traceable function at the address that the symbol `table` has for `name`, under that name.

    ftrace lists only one name per address: `__do_sys_getppid` for what is also called `__x64_sys_getppid`.
    """
    requested = "" if module == KERNEL else module
    places = {
        (address, in_module)
        for address, _, in_module in _named(table, name)
        if (not module or in_module == requested) and int(address, 16)
    }
    if len(places) != 1:
        return None
    ((address, home),) = places
    names = [symbol for _, symbol, in_module in _lines_with(table, f"{address} ") if in_module == home]
    found = next((item for item in known.inside(home or KERNEL) if item.name in names), None)
    return None if found is None else KernelFunction(name, found.module, (found.name,))


def _named(table: str, name: str) -> list[tuple[str, str, str]]:
    """(address, name, module) of the functions with this name."""
    lines = [line for end in "\n\t" for line in _lines_with(table, f" {name}{end}")]
    return [line for line in lines if line[1] == name]


def _lines_with(table: str, piece: str) -> list[tuple[str, str, str]]:
    """(address, name, module) of the functions whose line contains the text; faster than parsing all lines."""
    found = []
    position = table.find(piece)
    while position >= 0:
        start, end = table.rfind("\n", 0, position) + 1, table.find("\n", position)
        found += _SYMBOL_LINE.findall(table[start : end if end >= 0 else None])
        position = table.find(piece, end) if end >= 0 else -1
    return found


def _traceable(root: Path) -> list[tuple[str, str, str]] | None:
    """('', name, module) of each function that ftrace can hook; None if the list is not readable."""
    for mount in _TRACEFS:
        lines = _read(root / mount / _TRACEABLE).splitlines()
        if lines:
            # Nearly all lines are a bare name; the others also have a module, or the function's ftrace users.
            return [
                ("", line, "") if " " not in line and "\t" not in line and "[" not in line else _traceable_line(line)
                for line in lines
                if line
            ]
    return None


def _traceable_line(line: str) -> tuple[str, str, str]:
    found = _TRACEABLE_LINE.match(line)
    return ("", found[1], found[2] or "") if found else ("", line.split(maxsplit=1)[0], "")


def _symbols_without_blacklist(root: Path) -> list[tuple[str, str, str]]:
    symbols = _SYMBOL_LINE.findall(_read(root / "proc/kallsyms"))
    if not symbols:
        raise MachineError(
            "cannot list the kernel's functions",
            why=f"neither {_TRACEABLE} in tracefs nor /proc/kallsyms can be read",
            fix="run as root, after mount -t tracefs tracefs /sys/kernel/tracing; see %accel_doctor",
            code="kernel.functions-unreadable",
        )
    banned = set(_BLACKLIST_LINE.findall(_read(root / "sys/kernel/debug/kprobes/blacklist")))
    return [symbol for symbol in symbols if symbol[1] not in banned]


def _sorted_out(
    entries: Iterable[tuple[str, str, str]], times: Counter[str]
) -> tuple[list[KernelFunction], list[tuple[KernelFunction, str]]]:
    """Functions of one module, and those skipped with the reason.

    Args:
        entries: The module's symbols.
        times: How often each name occurs in all modules.

    """
    kept: dict[str, list[KernelFunction]] = {}
    left_out = []
    for address, name, module in entries:
        if _NOT_FUNCTIONS.match(name):
            continue
        if _COLD.search(name):
            left_out.append((KernelFunction(name, module), "it is the cold part of a function, not a function"))
            continue
        # Symbols at one address are one function; if addresses are hidden, each symbol is its own function.
        kept.setdefault(address if address.strip("0") else name, []).append(KernelFunction(name, module))
    functions = []
    for same in kept.values():
        names = dict.fromkeys(item.name for item in same)
        unique = next((name for name in names if times[name] == 1), None)
        if unique is None:
            why = f"{times[same[0].name]} functions share this name, and the kernel looks functions up by name"
            left_out.append((same[0], why))
        else:
            functions.append(KernelFunction(unique, same[0].module, tuple(name for name in names if name != unique)))
    return functions, left_out


def _called(item: KernelFunction, name: str) -> KernelFunction:
    """Return the function under the requested one of its names."""
    others = tuple(other for other in (item.name, *item.aliases) if other != name)
    return item if name == item.name else KernelFunction(name, item.module, others)


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
