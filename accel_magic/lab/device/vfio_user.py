"""Server side of the vfio-user protocol: turns QEMU's messages on a socket into calls of the device.

Source: the vfio-user specification 0.9 (libvfio-user, docs/vfio-user.rst) and the variant of QEMU 10.1 and later (QEMU,
hw/vfio-user): its DMA_MAP and DMA_UNMAP start with argsz and flags, and DEVICE_RESET has the number 13.
"""

from __future__ import annotations

import array
import errno
import json
import os
import socket
import struct
from typing import TYPE_CHECKING

from accel_magic.lab.device import pci
from accel_magic.lab.device.npu_device import BAR_SIZES

if TYPE_CHECKING:
    from collections.abc import Callable

    from accel_magic.lab.device.log import Log
    from accel_magic.lab.device.npu_device import EmulatedNpu

HEADER = struct.Struct("<HHIII")  # message, command, size with header, flags, errno
FLAG_REPLY, FLAG_NO_REPLY, FLAG_ERROR = 0x1, 0x10, 0x20
FLAG_TYPE = 0xF

VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, GET_REGION_INFO = 1, 2, 3, 4, 5
GET_IRQ_INFO, SET_IRQS, REGION_READ, REGION_WRITE, DEVICE_RESET = 7, 8, 9, 10, 13

MOST_FDS = 8
LARGEST_TRANSFER = 4096
LARGEST_MESSAGE = 65536
TIMEOUT_S = 10.0  # timeout for the rest of a message

_VERSION = struct.Struct("<HH")
_DMA_MAP = struct.Struct("<IIQQQ")  # argsz, flags, offset, address, size
_DMA_UNMAP = struct.Struct("<IIQQ")  # argsz, flags, address, size
_INFO = struct.Struct("<IIII")  # argsz, flags, regions, interrupts
_REGION_INFO = struct.Struct("<IIIIQQ")  # argsz, flags, index, capabilities, size, offset
_IRQ_INFO = struct.Struct("<IIII")  # argsz, flags, index, count
_SET_IRQS = struct.Struct("<IIIII")  # argsz, flags, index, first, count
_REGION = struct.Struct("<QII")  # offset, region, size

MAP_READ, MAP_WRITE = 1, 2
UNMAP_ALL = 1 << 1
DEVICE_RESETTABLE, DEVICE_PCI = 1, 2
REGIONS, CONFIG_REGION = 9, 7
REGION_SIZES = BAR_SIZES | {CONFIG_REGION: pci.SIZE}
REGION_READABLE, REGION_WRITABLE = 1, 2
IRQS, MSI = 5, 1
IRQ_EVENTFD, IRQ_NO_RESIZE = 1, 8
DATA_NONE, DATA_BOOL, DATA_EVENTFD = 1, 2, 4
ACTION_TRIGGER = 1 << 5


class DeviceServer:
    """One device for one client.

    Args:
        npu_for: Creates the device; takes the function that raises its interrupt.
        log: Logs protocol errors.

    Attributes:
        npu: The device.

    """

    def __init__(self, npu_for: Callable[[Callable[[], None]], EmulatedNpu], log: Log) -> None:
        self._log = log
        self._msi: int | None = None
        self.npu = npu_for(self.raise_interrupt)
        self._handlers: dict[int, Callable[[bytes, list[int]], bytes]] = {
            VERSION: self._version,
            DMA_MAP: self._dma_map,
            DMA_UNMAP: self._dma_unmap,
            GET_INFO: self._get_info,
            GET_REGION_INFO: self._get_region_info,
            GET_IRQ_INFO: self._get_irq_info,
            SET_IRQS: self._set_irqs,
            REGION_READ: self._region_read,
            REGION_WRITE: self._region_write,
            DEVICE_RESET: self._device_reset,
        }

    def close(self) -> None:
        """Release the client's memory and interrupt, and end the process that executes models."""
        self.npu.models.close()
        self.npu.memory.clear()
        self._set_msi(None)

    def raise_interrupt(self) -> None:
        """Signal the client's eventfd, if it has set one."""
        if self._msi is not None:
            try:
                os.write(self._msi, (1).to_bytes(8, "little"))
            except OSError as error:
                self._log.warning(f"interrupt not delivered: {error}")

    def serve_one(self, connection: socket.socket) -> bool:
        """Receive one message and answer it; False if the client disconnected or violated the protocol."""
        fds: list[int] = []
        try:
            head = _receive(connection, HEADER.size, fds)
            if head is None:
                return False
            message, command, size, flags, _ = HEADER.unpack(head)
            if not HEADER.size <= size <= LARGEST_MESSAGE or flags & FLAG_TYPE:
                self._log.warning(f"not a vfio-user request: {head.hex()}")
                return False
            body = _receive(connection, size - HEADER.size, fds)
            if body is None:
                return False
            number, reply = self.handle(command, body, fds)
            if not flags & FLAG_NO_REPLY:
                flags = FLAG_REPLY | (FLAG_ERROR if number else 0)
                connection.sendall(HEADER.pack(message, command, HEADER.size + len(reply), flags, number) + reply)
        except OSError as error:
            self._log.warning(f"connection lost: {error}")
            return False
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def handle(self, command: int, body: bytes, fds: list[int]) -> tuple[int, bytes]:
        """Handle one request.

        Args:
            command: Command number.
            body: The message after the header.
            fds: Descriptors sent with it; a handler that keeps one duplicates it.

        Returns:
            (0, body of the reply) or (errno, b"").

        """
        handler = self._handlers.get(command)
        if handler is None:
            return errno.ENOTSUP, b""
        try:
            return 0, handler(body, fds)
        except struct.error:
            error = OSError(errno.EINVAL, f"{len(body)} bytes are too few")
        except OSError as raised:
            error = raised
        self._log.warning(f"vfio-user command {command}: {error}")
        return error.errno or errno.EINVAL, b""

    def _version(self, body: bytes, _: list[int]) -> bytes:
        major, _minor = _VERSION.unpack_from(body)
        if major:
            raise OSError(errno.EINVAL, f"version {major}")
        capabilities = {
            "max_msg_fds": MOST_FDS,
            "max_data_xfer_size": LARGEST_TRANSFER,
            "max_dma_maps": 65535,
            "pgsizes": 4096,
        }
        return _VERSION.pack(0, 0) + json.dumps({"capabilities": capabilities}).encode() + b"\0"

    def _dma_map(self, body: bytes, fds: list[int]) -> bytes:
        _, flags, offset, address, size = _DMA_MAP.unpack_from(body)
        self._log.event(f"guest memory {address:#x}+{size:#x}, {'shared' if fds else 'not shared'}, flags {flags}")
        self.npu.memory.map(address, size, fds[0] if fds else None, offset, writable=bool(flags & MAP_WRITE))
        return b""

    def _dma_unmap(self, body: bytes, _: list[int]) -> bytes:
        _, flags, address, size = _DMA_UNMAP.unpack_from(body)
        if flags & UNMAP_ALL:
            self.npu.memory.clear()
        else:
            self.npu.memory.unmap(address, size)
        return body[: _DMA_UNMAP.size]

    def _get_info(self, _body: bytes, _: list[int]) -> bytes:
        return _INFO.pack(_INFO.size, DEVICE_RESETTABLE | DEVICE_PCI, REGIONS, IRQS)

    def _get_region_info(self, body: bytes, _: list[int]) -> bytes:
        index = _INFO.unpack_from(body)[2]
        if index >= REGIONS:
            raise OSError(errno.EINVAL, f"region {index}")
        size = REGION_SIZES.get(index, 0)
        flags = REGION_READABLE | REGION_WRITABLE if size else 0
        return _REGION_INFO.pack(_REGION_INFO.size, flags, index, 0, size, 0)

    def _get_irq_info(self, body: bytes, _: list[int]) -> bytes:
        index = _IRQ_INFO.unpack_from(body)[2]
        if index >= IRQS:
            raise OSError(errno.EINVAL, f"interrupt {index}")
        return _IRQ_INFO.pack(_IRQ_INFO.size, IRQ_EVENTFD | IRQ_NO_RESIZE if index == MSI else 0, index, index == MSI)

    def _set_irqs(self, body: bytes, fds: list[int]) -> bytes:
        _, flags, index, first, count = _SET_IRQS.unpack_from(body)
        if index >= IRQS or (count and (index != MSI or first != 0 or count != 1)):
            raise OSError(errno.EINVAL, f"interrupts {first}+{count} of {index}")
        if index != MSI or not flags & ACTION_TRIGGER:
            return b""  # masking is not supported, and other actions have no meaning for MSI
        if flags & DATA_EVENTFD and count:
            self._set_msi(os.dup(fds[0]) if fds else None)
        elif flags & DATA_NONE and not count:
            self._set_msi(None)
        elif flags & (DATA_NONE | DATA_BOOL) and body[_SET_IRQS.size :] != b"\0":
            self.raise_interrupt()
        return b""

    def _set_msi(self, fd: int | None) -> None:
        if self._msi is not None:
            os.close(self._msi)
        self._msi = fd
        if fd is not None:
            os.set_blocking(fd, False)  # an interrupt that the client does not read must not block the device

    def _region_read(self, body: bytes, _: list[int]) -> bytes:
        offset, region, size = _REGION.unpack_from(body)
        self._check(offset, region, size)
        if region == CONFIG_REGION:
            self.npu.statistics.mmio["config"] += 1
            data = self.npu.config.read(offset, size)
        else:
            data = self.npu.read(region, offset, size)
        return body[: _REGION.size] + data

    def _region_write(self, body: bytes, _: list[int]) -> bytes:
        offset, region, size = _REGION.unpack_from(body)
        self._check(offset, region, size)
        data = body[_REGION.size : _REGION.size + size]
        if len(data) != size:
            raise OSError(errno.EINVAL, f"{len(data)} bytes of {size}")
        if region == CONFIG_REGION:
            self.npu.statistics.mmio["config"] += 1
            self.npu.config.write(offset, data)
        else:
            self.npu.write(region, offset, data)
        return body[: _REGION.size]

    @staticmethod
    def _check(offset: int, region: int, size: int) -> None:
        if size > LARGEST_TRANSFER or offset + size > REGION_SIZES.get(region, 0):
            raise OSError(errno.EINVAL, f"{size} bytes at {offset:#x} of region {region}")

    def _device_reset(self, _body: bytes, _: list[int]) -> bytes:
        self.npu.reset()
        return b""


def _receive(connection: socket.socket, size: int, fds: list[int]) -> bytes | None:
    """Receive exactly `size` bytes, and add descriptors sent with them to `fds`; None if the stream ends first.

    Descriptors arrive with the first byte of their message, so they are not confused with those of another message as
    long as reads stop at message boundaries.
    """
    data = b""
    while len(data) < size:
        part, ancillary, _, _ = connection.recvmsg(size - len(data), socket.CMSG_SPACE(4 * MOST_FDS))
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
                fds.extend(numbers)
        if not part:
            return None
        data += part
    return data
