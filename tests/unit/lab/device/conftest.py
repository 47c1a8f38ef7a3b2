"""A guest in miniature: it plays QEMU (vfio-user messages on a socket) and the driver (registers, tables, rings).

Numbers here are typed from the driver's headers, not taken from the code under test.
"""

from __future__ import annotations

import array
import os
import socket
import struct

import pytest

from accel_magic.lab.device.fault_injection import Faults
from accel_magic.lab.device.log import Log
from accel_magic.lab.device.npu_device import EmulatedNpu
from accel_magic.lab.device.vfio_user import DeviceServer

# Guest memory: two windows of one file, with a gap between them.
LOW, LOW_SIZE = 0x0000_0000, 0x10_0000
HIGH, HIGH_SIZE = 0x1_0000_0000, 0x40_0000
FILE_OFFSET = 0x1000

# NPU addresses
BOOT_PARAMETERS = 0x8480_0000
ENTRY = 0x8480_2000
RX, RX_SIZE = 0x8500_0000, 0x4000
TX = 0x8501_0000
QUEUES = 0x8502_0000
COMMANDS = 0xC000_0000

STREAM_TABLE, CONTEXT_TABLE, MMU_QUEUE = HIGH, HIGH + 0x1000, HIGH + 0x5000
FIRST_FREE = HIGH + 0x6000

REPLY_OF = {
    0x1100: 0x2200,
    0x1101: 0x2201,
    0x1102: 0x2202,
    0x1103: 0x2203,
    0x1104: 0x2204,
    0x1105: 0x2205,
    0x1106: 0x2206,
    0x1107: 0x2207,
    0x110A: 0x220A,
    0x110B: 0x220B,
    0x110C: 0x220C,
    0x110D: 0x220D,
    0x110E: 0x220E,
    0x110F: 0x220F,
    0x1110: 0x2210,
    0x1111: 0x2211,
    0x1112: 0x2212,
    0x1113: 0x2214,
    0x1114: 0x2215,
    0x1115: 0x2216,
    0x1116: 0x2217,
    0x1117: 0x2202,
    0x1118: 0x2218,
    0x1119: 0x221A,
    0x111A: 0x221B,
    0x111B: 0x221C,
    0x111C: 0x221D,
    0x111D: 0x221E,
    0x111F: 0x221F,
    0x11FF: 0x22FF,
    0x1200: 0x2300,
    0x1201: 0x2301,
    0x1202: 0x2302,
}


class Stream:
    """A log that keeps its lines."""

    def __init__(self):
        self.lines = []

    def write(self, text):
        self.lines.append(text)

    def flush(self):
        pass


class Client:
    """QEMU's side of the socket; the server runs in this process, message by message."""

    def __init__(self, *, faults=(), job_us=500):
        self.now = 1_000_000
        self.log = Stream()
        log = Log(self.log)
        self.server = DeviceServer(
            lambda interrupt: EmulatedNpu(
                interrupt, job_us=job_us, faults=Faults.parse(faults), log=log, clock=lambda: self.now
            ),
            log,
        )
        self.npu = self.server.npu
        self.ours, self.theirs = socket.socketpair()
        self.ours.settimeout(5)
        self.theirs.settimeout(5)
        self.events = os.eventfd(0, os.EFD_NONBLOCK)
        self.file = os.memfd_create("guest")
        os.ftruncate(self.file, FILE_OFFSET + LOW_SIZE + HIGH_SIZE)
        self.number = 0

    def close(self):
        self.server.close()
        self.ours.close()
        self.theirs.close()
        os.close(self.events)
        os.close(self.file)

    def request(self, command, body=b"", fds=(), *, flags=0):
        """Send a message; returns its reply: (errno, body)."""
        self.number = self.number + 1 & 0xFFFF
        message = struct.pack("<HHIII", self.number, command, 16 + len(body), flags, 0) + body
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.ours.sendmsg([message], ancillary)
        assert self.server.serve_one(self.theirs)
        head = self.ours.recv(16, socket.MSG_WAITALL)
        number, echoed, size, reply_flags, error = struct.unpack("<HHIII", head)
        assert (number, echoed) == (self.number, command)
        assert reply_flags == (0x21 if error else 0x01)
        answer = self.ours.recv(size - 16, socket.MSG_WAITALL) if size > 16 else b""
        return error, answer

    def read(self, region, offset, size):
        """Do a REGION_READ; returns the bytes."""
        head = struct.pack("<QII", offset, region, size)
        error, answer = self.request(9, head)
        assert error == 0
        assert answer[:16] == head
        assert len(answer) == 16 + size
        return answer[16:]

    def write(self, region, offset, data):
        """Do a REGION_WRITE."""
        error, answer = self.request(10, struct.pack("<QII", offset, region, len(data)) + data)
        assert error == 0
        assert len(answer) == 16

    def map_memory(self):
        """Map both windows with DMA_MAP, as QEMU does."""
        for start, size, offset in ((LOW, LOW_SIZE, FILE_OFFSET), (HIGH, HIGH_SIZE, FILE_OFFSET + LOW_SIZE)):
            assert self.request(2, struct.pack("<IIQQQ", 32, 3, offset, start, size), [self.file]) == (0, b"")

    def connect_msi(self):
        """Set an eventfd for MSI with SET_IRQS."""
        assert self.request(8, struct.pack("<IIIII", 20, 0x24, 1, 0, 1), [self.events]) == (0, b"")

    def interrupts(self):
        """Number of MSIs since the last call."""
        try:
            return os.eventfd_read(self.events)
        except BlockingIOError:
            return 0

    # Direct access to guest memory

    def poke(self, address, data):
        base = FILE_OFFSET + LOW_SIZE - HIGH if address >= HIGH else FILE_OFFSET
        os.pwrite(self.file, data, base + address)

    def peek(self, address, size):
        base = FILE_OFFSET + LOW_SIZE - HIGH if address >= HIGH else FILE_OFFSET
        return os.pread(self.file, size, base + address)

    # Registers

    def r32(self, offset, bar=0):
        return int.from_bytes(self.read(bar, offset, 4), "little")

    def w32(self, offset, value, bar=0):
        self.write(bar, offset, value.to_bytes(4, "little"))

    def w64(self, offset, value, bar=0):
        self.write(bar, offset, value.to_bytes(8, "little"))

    def advance(self, microseconds):
        """Advance the clock and run the timers that are due."""
        self.now += microseconds
        self.npu.timers.run_due()

    @property
    def guest_faults(self):
        return dict(self.npu.statistics.guest_faults)


class Driver(Client):
    """Also the driver's side: everything up to a booted firmware, then messages and jobs."""

    def __init__(self, **options):
        super().__init__(**options)
        self.map_memory()
        self.connect_msi()
        self.free_page = FIRST_FREE
        self.tables = {}
        self.pages = {}
        self.sent = 0
        self.requests = 0
        self.mmu_producer = 0

    def page(self):
        self.free_page += 0x1000
        assert self.free_page <= HIGH + HIGH_SIZE
        return self.free_page - 0x1000

    def context(self, ssid):
        """The root table of a context, created on first use."""
        if ssid not in self.tables:
            self.tables[ssid] = self.page()
            valid, aarch64, t0sz, ips = 1 << 31, 1 << 41, 16, 5 << 32
            descriptor = struct.pack("<QQ", valid | aarch64 | t0sz | ips | ssid << 48, self.tables[ssid])
            self.poke(CONTEXT_TABLE + ssid * 64, descriptor)
        return self.tables[ssid]

    def map(self, address, size=0x1000, ssid=0, *, flags=0x443):
        """Map NPU pages to new guest pages; returns the guest address of the first."""
        first = None
        for at in range(address, address + size, 0x1000):
            table = self.context(ssid)
            for shift in (39, 30, 21):
                entry = table + (at >> shift & 511) * 8
                value = int.from_bytes(self.peek(entry, 8), "little")
                if not value:
                    value = self.page() | 3
                    self.poke(entry, value.to_bytes(8, "little"))
                table = value & ~0xFFF
            self.page()  # so that consecutive NPU pages are not contiguous in memory
            page = self.page()
            self.poke(table + (at >> 12 & 511) * 8, (page | flags).to_bytes(8, "little"))
            self.pages[ssid, at] = page
            first = page if first is None else first
        return first

    def place(self, address, ssid=0):
        """The guest address of an NPU address, from the test's own records."""
        return self.pages[ssid, address & ~0xFFF] + (address & 0xFFF)

    def vpoke(self, address, data, ssid=0):
        for index, byte in enumerate(data):
            self.poke(self.place(address + index, ssid), bytes([byte]))

    def vpeek(self, address, size, ssid=0):
        return b"".join(self.peek(self.place(address + index, ssid), 1) for index in range(size))

    def enable_mmu(self):
        """Set up the stream table and command queue, and enable the MMU."""
        self.context(0)
        self.poke(STREAM_TABLE, (CONTEXT_TABLE | 0b1011 | 8 << 59).to_bytes(8, "little"))
        self.w64(0x200080, STREAM_TABLE | 1 << 62)
        self.w32(0x200088, 2)
        self.w64(0x200090, MMU_QUEUE | 1 << 62 | 4)
        self.w32(0x200098, 0)
        self.w32(0x20009C, 0)
        self.mmu_producer = 0
        self.w32(0x200020, 0x1D)

    def mmu_command(self, *opcodes):
        """Write commands without waiting; returns the consumer register."""
        for opcode in opcodes:
            self.poke(MMU_QUEUE + (self.mmu_producer & 15) * 16, struct.pack("<QQ", opcode, 0))
            self.mmu_producer = self.mmu_producer + 1 & 31
        self.w32(0x200098, self.mmu_producer)
        return self.r32(0x20009C)

    def map_firmware(self):
        """Map the firmware's memory and message areas, and write boot parameters."""
        self.map(BOOT_PARAMETERS, 0x3000)
        self.map(RX, RX_SIZE)
        self.map(TX, 0x2000)
        self.map(QUEUES, 0x3000)
        self.write_parameters()

    def write_parameters(
        self, *, hardware=False, headers=(RX, RX_SIZE // 2), payloads=(RX + RX_SIZE // 2, RX_SIZE // 2)
    ):
        parameters = bytearray(4096)
        struct.pack_into("<I", parameters, 0, 0x10000)
        struct.pack_into("<QI", parameters, 0x100, *headers)
        struct.pack_into("<QI", parameters, 0x118, *payloads)
        struct.pack_into("<I", parameters, 0x470, hardware)
        self.poke(self.place(BOOT_PARAMETERS), bytes(parameters))

    def start_firmware(self, entry=ENTRY):
        """Write the registers for a boot, as the driver does, without waiting."""
        self.w32(0x41040, entry >> 9)
        self.w32(0x41040, entry >> 9 | 1)

    def enable_interrupts(self):
        self.w64(0x10240, 0xC00001F0)
        self.w32(0x34, 0, bar=4)

    def boot(self, *, hardware=False):
        """Boot until the firmware has answered."""
        self.enable_mmu()
        self.map_firmware()
        if hardware:
            self.write_parameters(hardware=True)
        self.start_firmware()
        ((header, message),) = self.receive()
        assert (header, message) == ((0x424F4F54, 0, 0x3FF), None)
        self.enable_interrupts()
        self.interrupts()
        return self

    def reset_npu(self):
        """Reset the NPU as the driver does between two boots."""
        self.w32(0x50, 1, bar=4)
        self.enable_mmu()

    def send(self, kind, payload=b"", *, channel=0):
        """Send a JSM message; returns its request number."""
        self.requests += 1
        at = TX + self.sent % 16 * 0x100
        self.sent += 1
        body = struct.pack("<QIIIIQ", 0, kind, 1, self.requests, 0, 0) + payload.ljust(96, b"\0")
        self.poke(self.place(at + 64), body)
        self.poke(self.place(at), struct.pack("<IIHBBB", at + 64, 128, channel, 0, 1, 1))
        self.w32(0x060200F0, at)
        return self.requests

    def receive(self):
        """All messages in the FIFO: ((data address, size, channel), (type, request, result, payload) or None)."""
        found = []
        while (self.r32(0x200FC) >> 16) & 0xFF:
            at = self.r32(0x200F4)
            where, size, channel, source, target, status = struct.unpack("<IIHBBB", self.vpeek(at, 13))
            assert (source, target, status) == (1, 0, 1)
            message = None
            if channel != 0x3FF:
                body = self.vpeek(where, size)
                _, kind, taken, request, result, _ = struct.unpack_from("<QIIIIQ", body)
                assert taken == 1
                message = (kind, request, result, body[32:])
            self.vpoke(at + 12, b"\0")
            found.append(((where, size, channel), message))
        return found

    def ask(self, kind, payload=b"", *, channel=0):
        """Send a message and check type, request and channel of its reply; returns (result, payload)."""
        request = self.send(kind, payload, channel=channel)
        ((header, (answer, echoed, result, content)),) = self.receive()
        assert (answer, echoed, header[2]) == (REPLY_OF[kind], request, channel)
        return result, content

    # Jobs

    def queue_at(self, index=0, engine=0):
        """Create an empty job queue of one page; returns its address."""
        base = QUEUES + index * 0x1000
        self.poke(self.place(base), struct.pack("<III", engine, 0, 0))
        return base

    def register(self, doorbell, *, ssid=1, index=0, engine=0):
        """Register a doorbell with a queue in OS mode; returns the queue's address."""
        base = self.queue_at(index, engine)
        assert self.ask(0x1102, struct.pack("<IIQII", doorbell, 0, base, 0x1000, ssid))[0] == 0
        return base

    def create(self, number, doorbell, *, ssid=1, index=0, engine=0, band=None):
        """Create a queue with a doorbell in HW mode; returns the queue's address."""
        base = self.queue_at(index, engine)
        payload = struct.pack("<QIIQQQII", 77, ssid, engine, ssid, number, base, 0x1000, 0)
        assert self.ask(0x1114, payload)[0] == 0
        if band is not None:
            assert self.ask(0x1116, struct.pack("<IIQI", ssid, 0, number, band))[0] == 0
        assert self.ask(0x1117, struct.pack("<IIQQQ", doorbell, ssid, number, base, 0x1000))[0] == 0
        return base

    def submit(self, base, job, commands=COMMANDS, *, ssid=1, request=b"", flags=0):
        """Add a job to a queue without ringing."""
        if (ssid, commands & ~0xFFF) not in self.pages:
            self.map(commands & ~0xFFF, 0x1000, ssid)
        if request:
            self.vpoke(commands, request, ssid)
        place = self.place(base)
        (tail,) = struct.unpack("<I", self.peek(place + 8, 4))
        self.poke(place + 64 + tail * 64, struct.pack("<QII", commands, job, flags))
        self.poke(place + 8, struct.pack("<I", (tail + 1) % 63))

    def ring(self, doorbell):
        self.w32(0x06300000 + doorbell * 0x1000, 1)

    def done(self):
        """Jobs reported as done since the last call: (engine, doorbell, job, status, SSID, queue)."""
        found = []
        for (_, _, channel), message in self.receive():
            kind, request, result, payload = message
            assert (channel, kind, request, result) == (11, 0x2100, 0, 0)
            engine, doorbell, job, status, ssid, _, queue = struct.unpack_from("<IIIIIIQ", payload)
            found.append((engine, doorbell, job, status, ssid, queue))
        return found

    def heartbeat(self, engine=0):
        result, payload = self.ask(0x1104, struct.pack("<II", engine, 0))
        assert result == 0
        return struct.unpack_from("<IIQ", payload)[2]

    @property
    def jobs(self):
        """Nonzero job counts."""
        return {name: count for name, count in self.npu.statistics.jobs.items() if count}


@pytest.fixture(scope="session")
def make_client():
    """The class: `make_client(faults=[...])` is QEMU without a guest."""
    return Client


@pytest.fixture(scope="session")
def make_driver():
    """The class: `make_driver(faults=[...], job_us=500)`; `.boot()` boots the firmware."""
    return Driver


@pytest.fixture
def client():
    made = Client()
    yield made
    made.close()


@pytest.fixture
def driver():
    """A booted device in OS mode."""
    made = Driver().boot()
    yield made
    made.close()


@pytest.fixture
def hardware():
    """A booted device in HW mode."""
    made = Driver().boot(hardware=True)
    yield made
    made.close()
