"""Kernel modules in a folder: their dependencies and load order."""

from __future__ import annotations

import io
import lzma
from typing import TYPE_CHECKING

from accel_magic.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def name_of(file: str) -> str:
    """Module name of a file; the kernel replaces dashes with underscores."""
    return file.rpartition("/")[2].partition(".ko")[0].replace("-", "_")


def read(file: Path) -> bytes:
    """Return the module's ELF image, decompressed.

    Raises:
        MachineError: The file is damaged.

    """
    data = file.read_bytes()
    if file.suffix != ".xz":
        return data
    try:
        return lzma.decompress(data)
    except lzma.LZMAError as error:
        raise MachineError(
            f"the kernel module {file.name} is damaged",
            why=str(error),
            fix="python -m accel_magic lab clean, then build again",
            code="lab.package-damaged",
        ) from error


def information(image: bytes, name: str) -> dict[str, list[str]]:
    """Return the fields of a module's `.modinfo` section, each with its values in order.

    Raises:
        MachineError: It is not a module.

    """
    from accel_magic import elf  # imports numpy

    try:
        file = elf.read(io.BytesIO(image))
        section = file.named(".modinfo")
        items = file.data(section).split(b"\0") if section is not None else []
    except elf.ElfError as error:
        raise MachineError(
            f"{name} is not a kernel module",
            why=str(error),
            fix="python -m accel_magic lab clean, then build again",
            code="lab.package-damaged",
        ) from error
    fields: dict[str, list[str]] = {}
    for item in items:
        key, equals, value = item.decode(errors="replace").partition("=")
        if equals:
            fields.setdefault(key, []).append(value)
    return fields


def load_order(requested: Iterable[str], files: Mapping[str, Path], builtin: frozenset[str]) -> list[str]:
    """Return modules and their dependencies in load order: each after those it depends on.

    Args:
        requested: Module names.
        files: Every module of the kernel, by name.
        builtin: Names of the modules built into the kernel; they are skipped.

    Raises:
        MachineError: A module or a dependency is neither in `files` nor built in.

    """
    order: list[str] = []
    seen: set[str] = set()

    def visit(name: str, needed_by: str) -> None:
        if name in seen or name in builtin:
            return
        seen.add(name)
        if name not in files:
            raise MachineError(
                f"the kernel's packages have no module {name}",
                why=f"{needed_by} needs it, and it is not built into the kernel",
                fix="report this with the output of: python -m accel_magic lab status --json",
                code="lab.no-module",
            )
        for needed in dependencies(read(files[name]), name):
            visit(needed, name)
        order.append(name)

    for name in requested:
        visit(name, "the lab")
    return order


def dependencies(image: bytes, name: str) -> list[str]:
    """Return the names of the modules that a module depends on."""
    listed = ",".join(information(image, name).get("depends", []))
    return [needed.replace("-", "_") for needed in listed.split(",") if needed]


def firmware_files(image: bytes, name: str, generation: str) -> list[str]:
    """Return the firmware paths of one device generation ("37xx") that a module lists."""
    return [path for path in information(image, name).get("firmware", []) if generation in path]
