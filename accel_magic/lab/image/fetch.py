"""Get the packages of the lab's parts from the mirror, or from a folder that the user filled.

The pinned version is preferred. If it is not available, the newest of the same series is used, and a note reports it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from accel_magic.errors import MachineError
from accel_magic.lab.image import pins, store
from accel_magic.lab.image.apt import Apt, Package, require_apt, sha256_of
from accel_magic.lab.image.mirror import find_mirror
from accel_magic.lab.image.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from accel_magic.lab.image.pins import Pin
    from accel_magic.lab.image.progress import Report

_NAMED = 5
QEMU = "qemu-system-x86"
# A build needs space for the packages and for their unpacked files, some of which are removed later.
_SPACE_PER_BYTE = 3


@dataclass(frozen=True)
class Deb:
    """A package file with its package's name and version."""

    name: str
    version: str
    file: Path


@dataclass(frozen=True)
class Fetched:
    """The packages of one group.

    Attributes:
        debs: Its package files.
        notes: One line for each difference from the pins.

    """

    debs: tuple[Deb, ...]
    notes: tuple[str, ...]


def from_mirror(groups: Sequence[str], report: Report) -> dict[str, Fetched]:
    """Fetch the packages of groups with the private apt.

    Raises:
        MachineError: No apt, no network, missing packages, or not enough disk space.

    """
    try:
        require_apt()
    except MachineError as error:
        raise MachineError(error.what, why=error.why, fix=by_hand(groups), code=error.code) from error
    suites = dict.fromkeys(map(pins.suite, groups))
    return {
        group: fetched
        for suite in suites
        for group, fetched in _from_suite(suite, [one for one in groups if pins.suite(one) == suite], report).items()
    }


def _from_suite(suite: str, groups: Sequence[str], report: Report) -> dict[str, Fetched]:
    apt = Apt(find_mirror(), report, suite)
    apt.update()
    chosen = {group: _choose(apt, group) for group in groups}
    everything = [package for packages, _ in chosen.values() for package in packages]
    store.need_space(_SPACE_PER_BYTE * sum(package.size for package in everything))
    apt.download(everything, store.debs())
    return {
        group: Fetched(tuple(Deb(item.name, item.version, store.debs() / item.file) for item in packages), notes)
        for group, (packages, notes) in chosen.items()
    }


def by_hand(groups: Iterable[str], missing: Iterable[Pin] | None = None) -> str:
    """Return instructions for building without apt: the URLs to fetch, and the build command."""
    requested = [pin for group in groups for pin in pins.group(group)] if missing is None else list(missing)
    which = " --level-zero" if any(pin.group == pins.LEVEL_ZERO for pin in requested) else ""
    which += " --accelerator" if any(pin.group == pins.MODULE_TOOLS for pin in requested) else ""
    build = f"python -m accel_magic lab build{which} --debs FOLDER"
    lines = "\n".join(f"       {pin.url}" for pin in requested)
    return (
        f"fetch these {len(requested)} files into a folder, then run: {build}\n"
        f"{lines}\n"
        "       (packages that Debian has since replaced are on https://snapshot.debian.org)"
    )


def _choose(apt: Apt, group: str) -> tuple[list[Package], tuple[str, ...]]:
    requested = pins.group(group)
    available = apt.available(pin.name for pin in requested)
    exact = [found for pin in requested if (found := _pinned(pin, available))]
    if len(exact) == len(requested):
        return exact, ()
    if group in pins.KERNELS:
        chosen = newest_kernel(apt, group)
    elif group == "qemu":
        chosen = apt.closure(QEMU, pins.BACKPORTS)
    else:
        chosen = [available[pin.name][0] for pin in requested if pin.name in available]
    if not chosen or (group.startswith("headers-") and len(chosen) < len(requested)):
        raise MachineError(
            f"the mirror has no packages for {group}",
            why=f"it has neither {requested[0].name} {requested[0].version} nor another version of the series",
            fix=by_hand([group]),
            code="lab.no-package",
        )
    return chosen, _differences(requested, chosen)


def _pinned(pin: Pin, available: dict[str, list[Package]]) -> Package | None:
    for package in available.get(pin.name, ()):
        if package.version == pin.version and package.sha256 == pin.sha256:
            return package
    return None


def newest_kernel(apt: Apt, series: str) -> list[Package]:
    """Return the packages of the newest kernel of a series for which the mirror is complete; empty if there is none."""
    requested = pins.group(series)
    stems = [pin.name.removesuffix(pin.release) for pin in requested]
    release = re.compile(rf"{re.escape(stems[0])}({re.escape(series)}\.(\d+)\+deb\d+-amd64)")
    found = [match for name in apt.names(f"{stems[0]}{series}.") if (match := release.fullmatch(name))]
    for match in sorted(found, key=lambda match: int(match[2]), reverse=True):
        names = [stem + match[1] for stem in stems]
        available = apt.available(names)
        if all(name in available for name in names):
            return [available[name][0] for name in names]
    return []


def _differences(requested: Sequence[Pin], chosen: Sequence[Package]) -> tuple[str, ...]:
    """One line for each pinned package that was replaced or dropped."""
    taken = {_stem(package.name): package for package in chosen}
    notes = []
    for pin in requested:
        package = taken.get(_stem(pin.name))
        if package is None:
            notes.append(f"{pin.name} {pin.version} is not on the mirror and no longer needed")
        elif (package.name, package.version, package.sha256) != (pin.name, pin.version, pin.sha256):
            notes.append(f"{pin.name} {pin.version} is not on the mirror: using {package.name} {package.version}")
    return tuple(notes)


def _stem(name: str) -> str:
    """A package's name without the kernel release."""
    return re.sub(r"\d+\.\d+\.\d+\+deb\d+-amd64$", "", name)


def from_folder(groups: Sequence[str], folder: Path) -> dict[str, Fetched]:
    """Take the packages of groups from a folder of .deb files.

    Packages at their pinned version are verified by checksum. Others of the same series are used unverified, with a
    note.

    Raises:
        MachineError: Packages are missing, or a checksum differs; `fix` lists the files.

    """
    if not folder.is_dir():
        raise MachineError(f"{folder} is not a folder", fix=by_hand(groups), code="lab.no-folder")
    files = [_identify(file) for file in sorted(folder.glob("*.deb"))]
    found = {pin: _pick(pin, files) for group in groups for pin in pins.group(group)}
    missing = [pin for pin, deb in found.items() if deb is None]
    if missing:
        raise MachineError(
            f"{folder} lacks packages for the lab",
            why=f"missing: {_some([pin.name for pin in missing])}",
            fix=by_hand(groups, missing),
            code="lab.no-package",
        )
    result = {}
    for group in groups:
        chosen = [(pin, deb) for pin, deb in found.items() if deb and pin.group == group]
        notes = tuple(note for pin, deb in chosen if (note := _check(pin, deb)))
        result[group] = Fetched(tuple(deb for _, deb in chosen), notes)
        _same_release(chosen, folder)
    return result


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _identify(file: Path) -> Deb:
    """Parse name and version from a file name, as apt or a mirror writes it."""
    name, _, rest = file.name.partition("_")
    return Deb(name, unquote(rest.rpartition("_")[0]), file)


def _pick(pin: Pin, files: Sequence[Deb]) -> Deb | None:
    """Return the pinned package if present, else another version of its series, else None."""
    same = [deb for deb in files if _stem(deb.name) == _stem(pin.name) and _series(deb.name) == _series(pin.name)]
    exact = [deb for deb in same if deb.name == pin.name and _without_epoch(deb.version) == _without_epoch(pin.version)]
    return (exact or same)[-1] if same else None


def _series(name: str) -> str:
    """Return the kernel series of a package, such as "6.12"; "" for other packages."""
    found = re.search(r"(\d+\.\d+)\.\d+\+deb\d+-amd64$", name)
    return found[1] if found else ""


def _without_epoch(version: str) -> str:
    return version.rpartition(":")[2]


def _check(pin: Pin, deb: Deb) -> str:
    """Check a supplied file; returns a note about it, or ""."""
    if deb.name != pin.name or _without_epoch(deb.version) != _without_epoch(pin.version):
        return f"{deb.name} {deb.version} is used unverified: only {pin.name} {pin.version} has a known checksum"
    if (found := sha256_of(deb.file)) != pin.sha256:
        raise MachineError(
            f"the package {deb.file} is damaged, or not Debian's",
            why=f"its SHA256 is {found}, but that of {pin.name} {pin.version} is {pin.sha256}",
            fix=by_hand([pin.group], [pin]),
            code="lab.package-differs",
        )
    return ""


def _same_release(chosen: Sequence[tuple[Pin, Deb]], folder: Path) -> None:
    """Check that all packages of a kernel have the same release."""
    names = [deb.name.removeprefix(_stem(deb.name)) for pin, deb in chosen if pin.release]
    if len(set(names)) > 1:
        raise MachineError(
            f"the kernel packages in {folder} have different releases",
            why=f"found {', '.join(sorted(set(names)))}",
            fix=by_hand([chosen[0][0].group]),
            code="lab.mixed-kernels",
        )


def steps(debs: Sequence[Deb], progress: Callable[[int], None]) -> Iterator[tuple[Deb, Callable[[int], None]]]:
    """Iterate over packages; yields each with a function that takes its bytes done and reports the total progress."""
    before = 0
    for deb in debs:

        def advance(done: int, before: int = before) -> None:
            progress(before + done)

        yield deb, advance
        before += deb.file.stat().st_size
        progress(before)


def report_notes(fetched: dict[str, Fetched], report: Report) -> None:
    """Report all notes."""
    for one in fetched.values():
        for note in one.notes:
            report(Progress("note", 0, 0, note))
