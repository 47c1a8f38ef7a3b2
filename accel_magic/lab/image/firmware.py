"""A synthetic firmware file that the intel_vpu driver accepts: a header, a version text and an empty image.

It contains no code from Intel and is never executed: the emulated NPU implements the firmware's behavior. The layout is
`struct vpu_firmware_header`; it passes the checks of `ivpu_fw_parse()` (Linux, drivers/accel/ivpu).
"""

from __future__ import annotations

import struct

_PAGE = 4096
_IMAGE_BYTES = 4 * _PAGE
_RUNTIME = 0x8480_0000  # the driver allows 2 to 3 GiB of the device's address space
_VERSION_ADDRESS = _RUNTIME + _PAGE
_IMAGE_ADDRESS = _RUNTIME + 2 * _PAGE
_RUNTIME_BYTES = 1 << 20
_PREEMPTION_BYTES = 8 * _PAGE  # two buffers per command queue; the driver rejects less than a page
_BOOT_API = (3, 28)
_JOB_MESSAGE_API = (3, 29)  # from 3.24 on the firmware may schedule the jobs
_VERSION = b"accel_magic lab, synthetic firmware"

# Header version, image format, load address, size, entry point, 32 bytes of version, compression, address and size of
# the version text, address of the boot parameters, 16 API versions, runtime and SHAVE sizes, preemption sizes.
_HEADER = struct.Struct("<IIQIQ32sIQIQ16IIIII")


def firmware() -> bytes:
    """Return the content of the file, 24 KiB."""
    apis = [0] * 16
    apis[0] = _BOOT_API[0] << 16 | _BOOT_API[1]
    apis[4] = _JOB_MESSAGE_API[0] << 16 | _JOB_MESSAGE_API[1]
    header = _HEADER.pack(
        1,
        0,
        _IMAGE_ADDRESS,
        _IMAGE_BYTES,
        _IMAGE_ADDRESS,
        b"accel_magic lab",
        0,
        _VERSION_ADDRESS,
        64,
        _RUNTIME,
        *apis,
        _RUNTIME_BYTES,
        0,
        _PREEMPTION_BYTES,
        _PREEMPTION_BYTES,
    )
    return header.ljust(_PAGE, b"\0") + _VERSION.ljust(_PAGE, b"\0") + bytes(_IMAGE_BYTES)
