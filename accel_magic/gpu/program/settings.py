"""Values that a user gives to the variables and maps of programs and policies before they are attached."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from accel_magic.errors import ProbeError
from accel_magic.gpu.program import bpf_elf, objects
from accel_magic.gpu.program.helpers import HASHES, RINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from accel_magic.gpu.program.object_model import BpfObject, MapSpec

_SETTING: Final = re.compile(r"([A-Za-z_]\w*(?:\.[\w-]+)?)=(-?(?:0x[0-9a-fA-F]+|\d+))")
_INITIALISED: Final = (".rodata", ".data")
_LARGEST: Final = 8
"""Bytes of the largest number."""


def parse(texts: Iterable[str]) -> dict[str, int]:
    """Read settings: "quota=8" for a variable, "policy_config.1=8" for the entry 1 of a map.

    Raises:
        ProbeError: One is not a setting.

    """
    settings = {}
    for text in texts:
        found = _SETTING.fullmatch(text)
        if not found:
            raise ProbeError(
                f"{text!r:.60} is not a setting",
                fix="write VARIABLE=NUMBER, or MAP.KEY=NUMBER: quota=8, policy_config.1=8",
                code="program.bad-setting",
            )
        settings[found[1]] = int(found[2], 0)
    return settings


def with_variables(loaded: BpfObject, settings: Mapping[str, int]) -> tuple[BpfObject, set[str]]:
    """Give variables their values, in the object itself; returns also the settings that it has variables for.

    Raises:
        ProbeError: A value does not fit.

    """
    file, data, used = bpf_elf.read_elf(loaded.data, loaded.source), bytearray(loaded.data), set()
    for symbol in file.symbols:
        if symbol.name not in settings or symbol.section is None:
            continue
        section = file.sections[symbol.section]
        if not section.name.startswith(_INITIALISED) or section.data is None:
            continue
        start = section.start + symbol.value
        data[start : start + symbol.size] = _bytes(symbol.name, settings[symbol.name], symbol.size)
        used.add(symbol.name)
    return (objects.load_object(bytes(data), loaded.source), used) if used else (loaded, used)


def with_zeroed(loaded: BpfObject, settings: Mapping[str, int]) -> tuple[BpfObject, set[str]]:
    """Give variables values that the file has no values for, in the maps; returns as `with_variables`.

    Raises:
        ProbeError: A value does not fit.

    """
    file, used = bpf_elf.read_elf(loaded.data, loaded.source), set()
    initial: dict[str, bytearray] = {}
    for symbol in file.symbols:
        section = None if symbol.section is None else file.sections[symbol.section]
        if section is None or section.data is not None or symbol.name not in settings:
            continue
        content = initial.setdefault(section.name, bytearray(section.size))
        end = symbol.value + symbol.size
        content[symbol.value : end] = _bytes(symbol.name, settings[symbol.name], symbol.size)
        used.add(symbol.name)
    maps = tuple(
        replace(spec, initial=bytes(initial[spec.name])) if spec.name in initial else spec for spec in loaded.maps
    )
    return replace(loaded, maps=maps), used


def variables(loaded: BpfObject) -> list[str]:
    """Return the names of the variables that can be set."""
    file = bpf_elf.read_elf(loaded.data, loaded.source)
    return [
        symbol.name
        for symbol in file.symbols
        if symbol.section is not None
        and file.sections[symbol.section].name.startswith((*_INITIALISED, ".bss"))
        and 0 < symbol.size <= _LARGEST
    ]


def entries(maps: Iterable[MapSpec], settings: Mapping[str, int]) -> dict[str, dict[bytes, bytes]]:
    """Values of maps: for each map, key -> value.

    Raises:
        ProbeError: A key or a value does not fit.

    """
    by_name = {spec.name: spec for spec in maps if spec.type not in RINGS}
    found: dict[str, dict[bytes, bytes]] = {}
    for name, value in settings.items():
        table, _, key = name.partition(".")
        spec = by_name.get(table)
        if key and spec:
            if not key.isdigit() and spec.type not in HASHES:
                raise _unfit(name, "its indexes are numbers")
            made = _bytes(name, int(key), spec.key_size) if key.isdigit() else _text(name, key, spec.key_size)
            found.setdefault(table, {})[made] = _bytes(name, value, spec.value_size)
    return found


def filled(maps: Iterable[MapSpec], fill: Mapping[str, Mapping[int, int]]) -> dict[str, dict[bytes, bytes]]:
    """Return the entries of whole maps: numbers by number.

    Raises:
        ProbeError: There are more than the map has room for, or one does not fit.

    """
    found = {}
    for spec in maps:
        if spec.name not in fill or spec.type in RINGS:
            continue
        if len(fill[spec.name]) > spec.max_entries:
            raise _unfit(
                spec.name, f"it has room for {spec.max_entries} entries, and {len(fill[spec.name])} were given"
            )
        found[spec.name] = {
            _bytes(spec.name, key, spec.key_size): _bytes(spec.name, value, spec.value_size)
            for key, value in fill[spec.name].items()
        }
    return found


def _bytes(name: str, value: int, size: int) -> bytes:
    """Encode a number. Raises ProbeError if it does not fit."""
    bits = 8 * size
    if size > _LARGEST or not -(1 << (bits - 1)) <= value < 1 << bits:
        raise _unfit(name, f"it has {size} bytes")
    return value.to_bytes(size, "little", signed=value < 0)


def _text(name: str, key: str, size: int) -> bytes:
    if len(key) >= size:
        raise _unfit(name, f"keys have {size} bytes")
    return key.encode().ljust(size, b"\0")


def _unfit(name: str, why: str) -> ProbeError:
    return ProbeError(
        f"{name} cannot be set to this", why=why, fix="give a number that fits", code="program.bad-setting"
    )
