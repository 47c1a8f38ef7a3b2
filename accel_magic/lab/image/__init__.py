"""The lab's image: a kernel, an initramfs and QEMU, built from Debian packages in the user's cache folder."""

from accel_magic.lab.image.accelerator import AcceleratorFiles
from accel_magic.lab.image.accelerator import find as find_accelerator
from accel_magic.lab.image.accelerator import kernels as accelerator_kernels
from accel_magic.lab.image.builder import (
    LabImage,
    build,
    build_accelerator,
    build_all,
    build_level_zero,
    built,
    clean,
    find,
    find_level_zero,
    is_built,
    prepare,
    urls,
    without_level_zero,
)
from accel_magic.lab.image.pins import DEFAULT, KERNELS
from accel_magic.lab.image.progress import Progress
from accel_magic.lab.image.store import cache

__all__ = [
    "DEFAULT",
    "KERNELS",
    "AcceleratorFiles",
    "LabImage",
    "Progress",
    "accelerator_kernels",
    "build",
    "build_accelerator",
    "build_all",
    "build_level_zero",
    "built",
    "cache",
    "clean",
    "find",
    "find_accelerator",
    "find_level_zero",
    "is_built",
    "prepare",
    "urls",
    "without_level_zero",
]
