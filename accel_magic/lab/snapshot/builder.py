"""Build a snapshot: boot twice, once to learn which files a notebook's kernel reads, once with them in memory."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from accel_magic import cache, codec, own_python, scratch
from accel_magic.errors import MachineError
from accel_magic.lab import image
from accel_magic.lab.guest import WAITING
from accel_magic.lab.image import snapshots, store
from accel_magic.lab.image.progress import Progress, silent
from accel_magic.lab.image.snapshots import MANIFEST, Snapshot, Stamp
from accel_magic.lab.snapshot import environment
from accel_magic.lab.snapshot.monitor import Monitor
from accel_magic.lab.vm import beginning
from accel_magic.lab.vm.beginning import Beginning
from accel_magic.lab.vm.lab import Lab
from accel_magic.lab.vm.lab_settings import Settings, hypervisor
from accel_magic.lab.vm.qemu_command import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel_magic.lab.image.progress import Report

_KERNELSPEC: Final = Path(__file__).parents[1] / "kernelspecs" / "accel-magic-npu-lab" / "kernel.json"
_WAIT_S: Final = 600.0
_SETTLE_S: Final = 1.0
_PAGE: Final = 4096
_PIECE: Final = 1 << 22
_BYTES_NEEDED: Final = 3 << 30
# Free memory is filled with zeros, which take no space on disk.
_CLEAR: Final = """set -e
b=/run/accel_magic/resume/busybox
echo 3 > /proc/sys/vm/drop_caches
mib=$(( $($b awk '/MemAvailable/ {print $2}' /proc/meminfo) / 1024 - 80 ))
$b mkdir -p /run/accel_magic/zeros
$b mount -t tmpfs -o size=${mib}m tmpfs /run/accel_magic/zeros
$b dd if=/dev/zero of=/run/accel_magic/zeros/fill bs=1M 2>/dev/null || true
$b umount /run/accel_magic/zeros
"""


def build(kernel: str = image.DEFAULT, *, report: Report | None = None) -> Snapshot:
    """Build the snapshot of a kernel's lab unless it exists.

    Args:
        kernel: Series, one of `KERNELS`, whose image is built.
        report: Called with the progress.

    Raises:
        MachineError: Labs cannot be restored on this machine, a package is missing, the guest failed, or the disk is
            full.

    """
    report = report or silent
    settings = Settings(kernel=kernel)
    if never := beginning.why_never(hypervisor(settings.hypervisor)):
        raise MachineError(
            "labs do not start from snapshots here", why=never, fix="nothing: they boot", code="lab.no-snapshots"
        )
    built = image.find(kernel)
    machine = beginning.machine_of(settings)
    if isinstance(found := snapshots.find(built, machine), Snapshot):
        return found
    _require_packages()
    with _alone(report) as folder:
        if isinstance(found := snapshots.find(built, machine), Snapshot):  # made while this one waited
            return found
        begin = time.monotonic()
        store.need_space(_BYTES_NEEDED)
        files, search_path = _files_read(settings, folder, report)
        archive = folder / "files.tar"
        environment.archive(files, archive)
        number = _save(settings, archive, folder, report)
        archive.unlink()
        report(Progress("snapshot", 0, 0, "testing it"))
        made = Snapshot(
            kernel_process=number,
            environment=environment.stamps(files, search_path),
            files={name: Stamp.of(folder / name) for name in ("ram", "state")},
            checksums={name: cache.sha256_of(folder / name) for name in ("ram", "state")},
            built_s=0.0,
            folder=str(folder),
        )
        _test(settings, made)
        made = replace(made, built_s=time.monotonic() - begin, folder="")
        (folder / MANIFEST).write_bytes(codec.to_json(made))
        name = snapshots.name_of(built, machine)
        target = store.snapshots() / f"{name}-{made.checksums['state'][:12]}"
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)
        for old in store.snapshots().glob(f"{kernel}-*"):
            if old != target:
                store.remove(old)
        return replace(made, folder=str(target))


def build_in_background(kernel: str) -> None:
    """Start building the snapshot of a kernel's lab in a process of low priority, if it is missing and may be built.

    It writes to `snapshot.log` in the lab's folder of the cache, and outlives this process.
    """
    with contextlib.suppress(OSError, MachineError):
        settings = Settings(kernel=kernel)
        found = beginning.find_snapshot(image.find(kernel), settings, hypervisor(settings.hypervisor))
        if (
            isinstance(found, Snapshot)
            or beginning.why_never(hypervisor(settings.hypervisor))
            or os.environ.get(snapshots.VARIABLE) == "use"
            or not os.access(store.cache(), os.W_OK)
        ):
            return
        command = own_python.command("accel_magic", "lab", "build", "--kernel", kernel, "--snapshot")
        with (store.cache() / "snapshot.log").open("wb") as log:
            subprocess.Popen(
                ["nice", "-n", "19", *command],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )


def _require_packages() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("ipykernel", "pyarrow", "jedi") if find_spec(name) is None]
    if missing:
        raise MachineError(
            "no snapshot of the lab can be made",
            why=f"this Python has no {', '.join(missing)}",
            fix="pip install 'accel-magic[lab]' ipykernel",
            code="lab.snapshot-packages",
        )


@contextlib.contextmanager
def _alone(report: Report) -> Iterator[Path]:
    """Yield a new folder for the snapshot; waits for any other build, and removes what those have left behind."""
    import fcntl
    import tempfile

    place = store.snapshots()
    cache.make(place)
    with (place / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(Progress("wait", 0, 0, "another snapshot of the lab is being built"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        for old in place.glob("new-*"):
            store.remove(old)
        folder = Path(tempfile.mkdtemp(prefix="new-", dir=place))
        folder.chmod(0o755)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _variables() -> dict[str, str]:
    """Environment of the kernel's process that waits: nothing of the user's."""
    return {"HOME": "/root", "LANG": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "OPENBLAS_NUM_THREADS": "1"}


def kernel_module() -> str:
    """The module that is the notebook's kernel, as in the installed kernelspec: `python -P -m MODULE`."""
    return str(json.loads(_KERNELSPEC.read_text())["argv"][3])


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", kernel_module(), "--wait", *arguments]


def _files_read(settings: Settings, folder: Path, report: Report) -> tuple[list[str], list[str]]:
    """Learn which files the kernel reads, here or else in a guest; returns them and Python's search path."""
    report(Progress("snapshot", 0, 0, "learning which files a notebook's kernel reads"))
    target = folder / "files.json"
    home = folder / "home"
    home.mkdir()
    here = subprocess.run(
        _command("--files", str(target)),
        env={**_variables(), "HOME": str(home), cache.VARIABLE: str(cache.root())},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if here.returncode:  # nobody may trace here
        report(Progress("snapshot", 0, 0, "booting to learn it there"))
        with Lab(settings, beginning=Beginning()) as lab:
            there = lab.exchange / "files.json"
            done = lab.run(_command("--files", str(there)), cwd=Path("/"), env=_variables(), timeout=_WAIT_S)
            if done.status:
                raise _failed(done.stderr + done.stdout)
            shutil.copyfile(there, target)
    found = json.loads(target.read_text())
    read = [path for path in found["files"] if not path.startswith(str(folder))]
    target.unlink()
    shutil.rmtree(home)
    return environment.files_of(read, found["path"]), found["path"]


def _failed(output: bytes) -> MachineError:
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return MachineError(
        "no snapshot of the lab could be made",
        why=lines[-1] if lines else "the kernel ended",
        fix="labs boot without one; please report it",
        code="lab.snapshot-failed",
    )


def _save(settings: Settings, archive: Path, folder: Path, report: Report) -> int:
    """Boot on the archive's files and save the guest; returns the number of its kernel's process."""
    memory = folder / "memory"
    made = scratch.make("snapshot")
    try:
        monitor = made.path / "monitor"
        begins = Beginning(Memory(memory, monitor=monitor), archive=archive)
        report(Progress("snapshot", 0, 0, "booting, importing and tracing once (2 of 2)"))
        with Lab(settings, beginning=begins) as lab:
            number = _wait_for_kernel(lab)
            report(Progress("snapshot", 0, 0, "saving the guest"))
            cleared = lab.run(["/run/accel_magic/resume/busybox", "sh", "-c", _CLEAR], cwd=Path("/"), timeout=_WAIT_S)
            if cleared.status:
                raise _failed(cleared.stderr)
            time.sleep(_SETTLE_S)
            with Monitor(monitor) as qemu:
                qemu.save(folder / "state")
                qemu.ask("quit")
    finally:
        made.remove()
    _copy_without_zeros(memory, folder / "ram")
    memory.unlink()
    for name in ("ram", "state"):
        (folder / name).chmod(0o444)
    return number


def _wait_for_kernel(lab: Lab) -> int:
    """Start the kernel in the guest and wait until it waits; returns the number of its process."""
    output = bytearray()
    waiting = threading.Event()

    def take(_: int, data: bytes) -> None:
        output.extend(data)
        if WAITING in output:
            waiting.set()

    process = lab.popen(_command(), on_output=take, cwd=Path("/"), env=_variables())
    until = time.monotonic() + _WAIT_S
    while not waiting.wait(0.1):
        if process.ended or time.monotonic() > until:
            raise _failed(bytes(output))
    return process.number


def _copy_without_zeros(source: Path, target: Path) -> None:
    """Copy the guest's memory; pages of zeros become holes."""
    with source.open("rb") as read, target.open("wb") as written:
        written.truncate(source.stat().st_size)
        position = 0
        while piece := read.read(_PIECE):
            pages = np.frombuffer(piece, np.uint8).reshape(-1, _PAGE).any(axis=1)
            edges = np.flatnonzero(np.diff(np.concatenate(([0], pages.view(np.int8), [0]))))
            for first, last in edges.reshape(-1, 2).tolist():
                written.seek(position + first * _PAGE)
                written.write(piece[first * _PAGE : last * _PAGE])
            position += len(piece)


def _test(settings: Settings, made: Snapshot) -> None:
    """Restore it once: a snapshot that does not start must not be kept."""
    with Lab(settings, beginning=Beginning.restored(made)) as lab:
        done = lab.run(["uname", "-r"], cwd=Path("/"))
        if done.status:
            raise _failed(done.stderr)
