"""Build, find and remove the lab's images."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic import cache
from accel_magic.errors import MachineError
from accel_magic.lab.image import accelerator, fetch, pins, qemu, store
from accel_magic.lab.image.pins import DEFAULT, KERNELS, LEVEL_ZERO
from accel_magic.lab.image.progress import Progress, Report, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from accel_magic.lab.image.fetch import Deb, Fetched

    _Unpacker = Callable[[Sequence[Deb], Path, Callable[[int], None]], dict[str, object]]

GUEST_INIT = Path(__file__).parent.parent / "guest" / "init"
LOADER = "libze_loader.so.1"
# Sources that affect the initramfs: when they change, it is rebuilt, which is fast.
_INITRAMFS_SOURCES = ("assemble.py", "firmware.py", "initramfs.py")


@dataclass(frozen=True)
class LabImage:
    """The files and commands from which a lab is started.

    Attributes:
        kernel: Its series, e.g. "6.12".
        release: The guest's kernel release (`uname -r`).
        vmlinuz: The kernel.
        initramfs: The initramfs.
        qemu: QEMU's command with its first arguments; those of the machine follow.
        qemu_version: Such as "11.1.3".
        packages: Name -> version of the packages whose files are used.
        notes: One line for each package that differs from its pin.

    """

    kernel: str
    release: str
    vmlinuz: Path
    initramfs: Path
    qemu: tuple[str, ...]
    qemu_version: str
    packages: dict[str, str]
    notes: tuple[str, ...] = ()


def build(kernel: str = DEFAULT, *, debs: Path | None = None, report: Report | None = None) -> LabImage:
    """Build the image of a kernel; parts that exist are reused.

    Args:
        kernel: Series, one of `KERNELS`.
        debs: Folder with the packages, instead of the mirror.
        report: Called with the progress.

    Raises:
        MachineError: Not x86-64 Linux, packages unavailable or damaged, or not enough disk space.

    """
    return build_all((kernel,), debs=debs, report=report)[0]


def build_all(kernels: Sequence[str], *, debs: Path | None = None, report: Report | None = None) -> list[LabImage]:
    """Build several images with the package lists fetched once; arguments and errors are those of `build`."""
    _check(kernels)
    report = report or silent
    ready = {kernel: image for kernel in kernels if (image := _ready(kernel))}
    if len(ready) < len(set(kernels)):
        with store.writing(report):
            _supply(_lacking(kernels), debs, report)
            ready = {kernel: _assembled(kernel, report) for kernel in kernels}
            _tidy(*(f"kernel-{kernel}" for kernel in kernels), "busybox", "qemu")
    return [ready[kernel] for kernel in kernels]


def prepare(kernel: str = DEFAULT, *, report: Report | None = None) -> LabImage:
    """Build what a lab is started from unless its image exists: the image and, if possible, Level Zero.

    Args:
        kernel: Series, one of `KERNELS`.
        report: Called with the progress, and with a note if Level Zero cannot be built.

    Raises:
        MachineError: As `build`.

    """
    _check((kernel,))
    if image := _ready(kernel):
        return image
    report = report or silent
    image = build(kernel, report=report)
    try:
        build_level_zero(report=report)
    except MachineError as error:
        report(Progress("note", 0, 0, without_level_zero(error)))
    return image


def without_level_zero(error: MachineError) -> str:
    """Return what a lab without Level Zero lacks, and why it has none, as one line."""
    return f"OpenVINO does not find the NPU, and ze_load does not work: {error.what}"


def build_level_zero(*, debs: Path | None = None, report: Report | None = None) -> Path:
    """Fetch the Level Zero loader unless it exists; returns the path of the library.

    Args:
        debs: Folder with the package, instead of the mirror.
        report: Called with the progress.

    Raises:
        MachineError: Not x86-64 Linux, package unavailable or damaged, or not enough disk space.

    """
    _check(())
    if store.manifest(_part_name(LEVEL_ZERO)) is None:
        report = report or silent
        with store.writing(report):
            _supply([LEVEL_ZERO], debs, report)
            _tidy(LEVEL_ZERO)
    return find_level_zero()


def build_accelerator(
    kernel: str = "7.2", *, debs: Path | None = None, report: Report | None = None
) -> accelerator.AcceleratorFiles:
    """Compile the accelerator's module for a kernel unless it exists; the kernel's image is built too.

    Args:
        kernel: Series, one of `KERNELS`.
        debs: Folder with the packages, instead of the mirror.
        report: Called with the progress.

    Raises:
        MachineError: As `build`; there is no gcc or make, or no headers for this kernel, or the compilation failed.

    """
    build(kernel, debs=debs, report=report)
    report = report or silent
    groups = accelerator.groups(kernel)
    if store.manifest(accelerator.part_name(kernel)) is None:
        accelerator.require_tools()
        with store.writing(report):
            fetched = fetch.from_folder(groups, debs) if debs else fetch.from_mirror(groups, report)
            fetch.report_notes(fetched, report)
            release = (store.manifest(_part_name(kernel)) or {})["release"]
            packages = [deb for group in groups for deb in fetched[group].debs]
            accelerator.compile_part(kernel, release, packages, report)
            _tidy(f"accelerator-{kernel}")
    return accelerator.find(kernel)


def find_level_zero() -> Path:
    """Return the path of the Level Zero loader.

    Raises:
        MachineError: It is not built.

    """
    if store.manifest(_part_name(LEVEL_ZERO)) is None:
        raise MachineError(
            "the lab has no Level Zero",
            why=f"{store.cache()} lacks {_part_name(LEVEL_ZERO)}",
            fix="python -m accel_magic lab build, then restart the lab",
            code="lab.no-level-zero",
        )
    return store.part(_part_name(LEVEL_ZERO)) / LOADER


def find(kernel: str = DEFAULT) -> LabImage:
    """Return the image of a kernel; its initramfs is rebuilt if its inputs have changed.

    Raises:
        MachineError: It is not built.

    """
    _check((kernel,))
    image = _ready(kernel)
    if image:
        return image
    if not _lacking((kernel,)):
        with store.writing(silent):
            return _assembled(kernel, silent)
    raise MachineError(
        f"the lab's image with kernel {kernel} is not built",
        why=f"{store.cache()} lacks {', '.join(_part_name(group) for group in _lacking((kernel,)))}",
        fix=f"python -m accel_magic lab build --kernel {kernel}",
        code="lab.not-built",
    )


def is_built(kernel: str) -> bool:
    """Whether everything is there that the lab of a kernel is started from.

    Raises:
        MachineError: This machine cannot run labs.

    """
    _check((kernel,))
    return not _lacking((kernel,))


def built() -> list[LabImage]:
    """Return every image that is built."""
    return [find(kernel) for kernel in KERNELS if not _lacking((kernel,))]


def clean(kernel: str | None = None) -> int:
    """Remove the image of a kernel, or all images and parts; returns the number of bytes freed."""
    if kernel is None and not store.cache().is_dir():
        return 0
    if kernel is not None:
        _check((kernel,))
    with store.writing(silent):
        if kernel is None:
            return sum(store.remove(store.cache() / name) for name in store.CONTENTS)
        names = [
            *store.parts().glob(f"kernel-{kernel}-*"),
            *store.parts().glob(f"accelerator-{kernel}-*"),
            *store.images().glob(f"{kernel}-*"),
            *store.snapshots().glob(f"{kernel}-*"),
        ]
        return sum(store.remove(item) for item in names)


def urls(kernels: Sequence[str], *, level_zero: bool = False, modules: bool = False) -> list[str]:
    """Return the URLs of all packages that may be needed, for fetching them manually."""
    _check(kernels)
    groups = (*kernels, "busybox", "qemu", *((LEVEL_ZERO,) if level_zero else ()))
    if modules:
        requested = [kernel for kernel in kernels if kernel in accelerator.kernels()] or kernels
        groups = tuple(
            dict.fromkeys((*groups, *(group for kernel in requested for group in accelerator.groups(kernel))))
        )
    return [pin.url for group in groups for pin in pins.group(group)]


def _check(kernels: Sequence[str]) -> None:
    import platform
    import sys

    for kernel in kernels:
        if kernel not in KERNELS:
            raise MachineError(
                f"the lab has no kernel {kernel}", fix=f"use one of {', '.join(KERNELS)}", code="lab.unknown-kernel"
            )
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise MachineError(
            "the lab does not run on this machine",
            why=f"it needs Linux on x86-64; this is {sys.platform} on {platform.machine()}",
            fix="use a recording: accel_magic.replay() works anywhere",
            code="lab.platform",
        )


def _part_name(group: str) -> str:
    kind = f"kernel-{group}" if group in KERNELS else group
    return f"{kind}-{pins.digest(group)}"


def _image_name(kernel: str) -> str:
    parts = f"{_part_name(kernel)} {_part_name('busybox')}".encode()
    digest = _digest(parts, _guest_init(), *map(_source, _INITRAMFS_SOURCES))
    return f"{kernel}-{digest}"


def _image_file(kernel: str) -> Path | None:
    return cache.find(store.images(), _image_name(kernel), ".cpio")


def _digest(*contents: bytes) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents)).hexdigest()[:12]


def _source(name: str) -> bytes:
    return Path(__file__).with_name(name).read_bytes()


def _guest_init() -> bytes:
    try:
        return GUEST_INIT.read_bytes()
    except FileNotFoundError as error:
        raise MachineError(
            "the installation of the lab is incomplete",
            why=f"there is no {GUEST_INIT}",
            fix="pip install --force-reinstall accel-magic",
            code="lab.incomplete-install",
        ) from error


def _groups(kernels: Sequence[str]) -> list[str]:
    own = qemu.system_qemu()
    return [*dict.fromkeys(kernels), "busybox", *(() if own and own.suits else ("qemu",))]


def _lacking(kernels: Sequence[str]) -> list[str]:
    return [group for group in _groups(kernels) if store.manifest(_part_name(group)) is None]


def _ready(kernel: str) -> LabImage | None:
    file = _image_file(kernel)
    if file is None or _lacking((kernel,)):
        return None
    return _image(kernel, file)


def _image(kernel: str, file: Path) -> LabImage:
    manifests: dict[str, dict[str, Any]] = {
        group: store.manifest(_part_name(group)) or {} for group in _groups((kernel,))
    }
    own = qemu.system_qemu()
    if "qemu" in manifests or own is None:
        command, version = qemu.command_in(store.part(_part_name("qemu"))), manifests["qemu"]["version"]
    else:
        command, version = (own.path,), own.version
    return LabImage(
        kernel=kernel,
        release=manifests[kernel]["release"],
        vmlinuz=store.part(_part_name(kernel)) / "vmlinuz",
        initramfs=file,
        qemu=command,
        qemu_version=version,
        packages={name: value for part in manifests.values() for name, value in part["packages"].items()},
        notes=tuple(note for part in manifests.values() for note in part["notes"]),
    )


def _supply(missing: Sequence[str], debs: Path | None, report: Report) -> None:
    """Fetch and unpack missing parts."""
    if not missing:
        return
    fetched = fetch.from_folder(missing, debs) if debs else fetch.from_mirror(missing, report)
    fetch.report_notes(fetched, report)
    for group, packages in fetched.items():
        _unpack(group, packages, report)


def _unpack(group: str, fetched: Fetched, report: Report) -> None:
    total = sum(deb.file.stat().st_size for deb in fetched.debs)
    text = f"the kernel {group}" if group in KERNELS else group

    def progress(done: int) -> None:
        report(Progress("unpack", done, total, text))

    with store.new_part(_part_name(group)) as part:
        content = _UNPACKERS.get(group, _unpack_kernel)(fetched.debs, part, progress)
        store.write_manifest(part, {**content, "notes": fetched.notes})


def _unpack_kernel(debs: Sequence[Deb], part: Path, progress: Callable[[int], None]) -> dict[str, object]:
    from accel_magic.lab.image import kernel

    return {**kernel.unpack(debs, part, progress), "packages": _versions(debs)}


def _unpack_busybox(debs: Sequence[Deb], part: Path, progress: Callable[[int], None]) -> dict[str, object]:
    from accel_magic.lab.image.unpack import extract

    def choose(path: str) -> Path | None:
        return part / "busybox" if path in {"usr/bin/busybox", "bin/busybox"} else None

    if not any(extract(deb.file, choose, progress)[0] for deb in debs):
        raise MachineError(
            "the package busybox-static contains no busybox", fix="use Debian's package", code="lab.package-lacks-file"
        )
    return {"packages": _versions(debs)}


def _unpack_qemu(debs: Sequence[Deb], part: Path, progress: Callable[[int], None]) -> dict[str, object]:
    packages = qemu.unpack(debs, part, progress)
    return {"packages": packages, "version": qemu.check(qemu.command_in(part))}


def _unpack_level_zero(debs: Sequence[Deb], part: Path, progress: Callable[[int], None]) -> dict[str, object]:
    from accel_magic.lab.image.unpack import extract

    def choose(path: str) -> Path | None:
        return part / LOADER if path.rpartition("/")[2].startswith(f"{LOADER}.") else None

    if not any(extract(deb.file, choose, progress)[0] for deb in debs):
        raise MachineError(
            f"the package libze1 does not contain {LOADER}", fix="use Debian's package", code="lab.package-lacks-file"
        )
    return {"packages": _versions(debs)}


_UNPACKERS: dict[str, _Unpacker] = {
    "busybox": _unpack_busybox,
    LEVEL_ZERO: _unpack_level_zero,
    "qemu": _unpack_qemu,
}


def _versions(debs: Sequence[Deb]) -> dict[str, str]:
    return {deb.name: deb.version for deb in debs}


def _assembled(kernel: str, report: Report) -> LabImage:
    """Write the initramfs if it does not exist, and remove outdated ones of this kernel."""
    file = _image_file(kernel)
    if file is None:
        from accel_magic.lab.image.assemble import assemble

        report(Progress("build", 0, 0, f"the initramfs for {kernel}"))
        store.images().mkdir(mode=0o755, exist_ok=True)
        with store.temporary() as folder, (folder / "new").open("wb") as output:
            manifest = store.manifest(_part_name(kernel)) or {}
            busybox = store.part(_part_name("busybox")) / "busybox"
            assemble(output, store.part(_part_name(kernel)), manifest, busybox, _guest_init())
            output.flush()
            file = cache.keep(folder / "new", store.images(), _image_name(kernel), ".cpio")
        for old in store.images().glob(f"{kernel}-*"):
            if old != file:
                store.remove(old)
    return _image(kernel, file)


def _tidy(*built: str) -> None:
    """Remove temporary files of the build, and outdated parts of the given kinds."""
    current = {_part_name(group) for group in (*KERNELS, "busybox", "qemu", LEVEL_ZERO)}
    current |= {accelerator.part_name(kernel) for kernel in KERNELS if pins.group(pins.headers(kernel))}
    for part in store.parts().iterdir():
        if part.name not in current and part.name.startswith(tuple(f"{kind}-" for kind in built)):
            store.remove(part)
    for name in ("debs", "apt", "tmp"):
        store.remove(store.cache() / name)
