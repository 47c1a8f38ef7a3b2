"""Command line of the lab: `python -m accel_magic lab build|status|clean`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_magic import cache, terminal
from accel_magic.command_line.lab_runs import add_run, add_shell, add_trace
from accel_magic.command_line.progress import Bar
from accel_magic.errors import MachineError
from accel_magic.quantities import duration_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.lab.image import LabImage
    from accel_magic.lab.image.progress import Report
    from accel_magic.lab.image.snapshots import Snapshot
    from accel_magic.lab.vm.running_labs import RunningLab

    Commands = argparse._SubParsersAction[Any]  # noqa: SLF001 - its only name


def add(commands: Commands) -> None:
    """Add `lab` and its commands to the parser of `python -m accel_magic`."""
    lab = commands.add_parser("lab", help="the NPU lab: the real driver on an emulated NPU in a virtual machine")
    inner = lab.add_subparsers(metavar="COMMAND", required=True)
    for add_one in COMMANDS:
        add_one(inner)


def _add_build(commands: Commands) -> None:
    from accel_magic.lab.image.pins import DEFAULT, KERNELS

    build = commands.add_parser(
        "build",
        help="fetch Debian's packages and build the lab's image",
        description=(
            "Downloads the lab's packages to a cache folder, from the mirror that this machine's apt uses, and builds "
            "the image. Needs no root and does not change the system. Packages in the cache are not downloaded again."
        ),
    )
    which = build.add_mutually_exclusive_group()
    which.add_argument("--kernel", choices=KERNELS, default=DEFAULT, help="kernel series (default: %(default)s)")
    which.add_argument(
        "--all",
        action="store_true",
        help="everything: all series, Level Zero, the accelerator, and a snapshot of the default series",
    )
    build.add_argument("--debs", type=Path, metavar="FOLDER", help="use the packages in FOLDER, without apt or network")
    build.add_argument(
        "--urls", action="store_true", help="only print the packages' URLs, for downloading them yourself"
    )
    build.add_argument(
        "--level-zero",
        action=argparse.BooleanOptionalAction,
        help="build Level Zero, with which OpenVINO and ze_load use the NPU (default: if possible)",
    )
    build.add_argument(
        "--accelerator",
        action="store_true",
        help="also compile the lab's own accelerator: a DRM render node with gpu_ext's policies, without a GPU",
    )
    build.add_argument(
        "--snapshot",
        action=argparse.BooleanOptionalAction,
        help="save a lab that has booted and traced once: labs then start in seconds (default: if possible)",
    )
    build.set_defaults(handler=_build)


def _add_status(commands: Commands) -> None:
    status = commands.add_parser("status", help="show what is built, and who runs labs on this machine")
    status.add_argument("--json", action="store_true", help="print the status as JSON")
    status.add_argument("--verify", action="store_true", help="read snapshots whole and compare their checksums")
    status.set_defaults(handler=_status)


def _add_draw(commands: Commands) -> None:
    draw = commands.add_parser("draw", description="Draws results for a lab's guest, on a socket as standard input.")
    draw.add_argument("folder", help="a folder that limits the number of these processes")
    draw.set_defaults(handler=_draw)


def _draw(options: argparse.Namespace) -> int:
    from accel_magic.results import drawing_server

    drawing_server.serve(options.folder)
    return 0


def _add_clean(commands: Commands) -> None:
    from accel_magic.lab.image.pins import KERNELS

    clean = commands.add_parser("clean", help="remove the lab's images and logs from the cache")
    clean.add_argument("--kernel", choices=KERNELS, help="only the image of this kernel (default: everything)")
    clean.set_defaults(handler=_clean)


COMMANDS: list[Callable[[Commands], None]] = [
    _add_build,
    _add_status,
    _add_clean,
    add_run,
    add_shell,
    add_trace,
    _add_draw,
]
"""One function per lab command: it adds a parser whose default `handler` returns the exit status."""


def _build(options: argparse.Namespace) -> int:
    from accel_magic.lab import image

    kernels = image.KERNELS if options.all else (options.kernel,)
    with_module = image.accelerator_kernels() if options.all else kernels if options.accelerator else ()
    if options.urls:
        print("\n".join(image.urls(kernels, level_zero=options.level_zero is not False, modules=bool(with_module))))
        return 0
    bar = Bar(sys.stderr)
    try:
        images = image.build_all(kernels, debs=options.debs, report=bar)
        level_zero = None if options.level_zero is False else _built_level_zero(options, bar)
        for kernel in with_module:
            image.build_accelerator(kernel, debs=options.debs, report=bar)
        which = (image.DEFAULT,) if options.all and options.snapshot is None else kernels
        saved = [] if options.snapshot is False else [_built_snapshot(kernel, options, bar) for kernel in which]
    finally:
        bar.end()
    print("\n".join(_line(one) for one in images))
    if level_zero is not None:
        print(level_zero)
    if with_module:
        print(f"accelerator: built for {', '.join(with_module)}; start with lab run --accelerator")
    print("\n".join(saved), end="\n" * bool(saved))
    return 0


def _built_snapshot(kernel: str, options: argparse.Namespace, report: Report) -> str:
    """Build the snapshot of a kernel's lab; returns a line about it. A failure is an error only if it was requested."""
    from accel_magic.lab import snapshot

    try:
        return _snapshot_line(kernel, snapshot.build(kernel, report=report))
    except MachineError as error:
        if options.snapshot:
            raise
        return f"snapshot: none of {kernel}, so labs boot. {error.what}: {error.why}"


def _snapshot_line(kernel: str, one: Snapshot) -> str:
    return f"snapshot: {kernel}, {one.disk_bytes() / 1e6:.0f} MB, made in {one.built_s:.0f} s"


def _built_level_zero(options: argparse.Namespace, report: Report) -> str:
    """Build Level Zero; returns a line about it. That it cannot be built is an error only if it was requested."""
    from accel_magic.lab import image, level_zero

    try:
        image.build_level_zero(debs=options.debs, report=report)
        return f"Level Zero: {level_zero.find().loader}, available in every lab started from now on"
    except MachineError as error:
        if options.level_zero:
            raise
        return f"Level Zero: not built. {image.without_level_zero(error)} (see lab build --level-zero)"


def _status(options: argparse.Namespace) -> int:
    from accel_magic.lab import image
    from accel_magic.lab.image import store
    from accel_magic.lab.vm import running_labs

    found = image.built()
    by_kernel = {one.kernel: one for one in found}
    if options.json:
        images = [dataclasses.asdict(one) for one in found]
        content = {
            "cache": image.cache(),
            "bytes": store.size_of(image.cache()),
            "images": images,
            "level_zero": _level_zero(),
            "snapshots": {kernel: _snapshot(one, options) for kernel, one in by_kernel.items()},
            "running": [dataclasses.asdict(one) for one in running_labs.find()],
            "accelerator": [kernel for kernel in image.KERNELS if _has_accelerator(kernel)],
        }
        print(json.dumps(content, indent=1, default=str))
        return 0
    print(f"cache: {image.cache()}, {store.size_of(image.cache()) / 1e6:.0f} MB")
    for kernel in image.KERNELS:
        one = by_kernel.get(kernel)
        print(_line(one) if one else f"{kernel}: not built (python -m accel_magic lab build --kernel {kernel})")
        for note in one.notes if one else ():
            print(f"  note: {note}")
    print(f"Level Zero: {_level_zero() or 'not built (python -m accel_magic lab build)'}")
    for one in found:
        print(f"snapshot: {one.kernel}: {_snapshot(one, options)}")
    ready = ", ".join(kernel for kernel in image.KERNELS if _has_accelerator(kernel))
    accelerator = ready or "not built (python -m accel_magic lab build --kernel 7.2 --accelerator)"
    print(f"accelerator: {accelerator}")
    for lab in running_labs.find():
        print(f"running: {_running(lab)}")
    return 0


def _running(lab: RunningLab) -> str:
    """A line about a lab that runs; what comes from other users' command lines is made harmless."""
    how = "restored" if lab.restored else "booted"
    memory = "" if lab.memory_mib is None else f", {lab.memory_mib:.0f} MiB"
    folders = terminal.one_line(", ".join(lab.folders)) or "no folder"
    times = f"for {duration_text(lab.age_s * 1e9)}, {lab.cpu_s:.0f} s of CPU"
    return f"{lab.user}: {lab.kernel or 'unknown kernel'} ({how}) {times}{memory}, {folders} (process {lab.pid})"


def _snapshot(one: LabImage, options: argparse.Namespace) -> str:
    """What labs with a kernel start from."""
    from accel_magic.lab.image.snapshots import Snapshot, is_being_built, verify
    from accel_magic.lab.vm.beginning import find_snapshot
    from accel_magic.lab.vm.lab_settings import Settings, hypervisor

    settings = Settings(kernel=one.kernel)
    found = find_snapshot(one, settings, hypervisor(settings.hypervisor))
    if isinstance(found, Snapshot):
        verified = (
            "" if not options.verify else ", verified" if verify(found) else ", DAMAGED: lab clean, then build again"
        )
        return f"{found.disk_bytes() / 1e6:.0f} MB, made in {found.built_s:.0f} s{verified}"
    return f"labs boot, because {found}{'; one is being built' if is_being_built() else ''}"


def _level_zero() -> Path | None:
    from accel_magic.lab import image

    try:
        return image.find_level_zero()
    except MachineError:
        return None


def _has_accelerator(kernel: str) -> bool:
    from accel_magic.lab import image

    try:
        image.find_accelerator(kernel)
    except MachineError:
        return False
    return True


def _line(one: LabImage) -> str:
    size = one.initramfs.stat().st_size / 1e6
    return f"{one.kernel}: {one.release}, initramfs {size:.1f} MB, QEMU {one.qemu_version}"


def _clean(options: argparse.Namespace) -> int:
    from accel_magic.lab import image
    from accel_magic.lab.image import store

    removed = image.clean(options.kernel)
    if options.kernel is None:
        removed += sum(store.remove(cache.own("lab", name)) for name in ("runs", "programs"))
    print(f"{removed / 1e6:.0f} MB removed")
    return 0
