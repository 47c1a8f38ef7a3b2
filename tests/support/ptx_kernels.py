"""PTX samples, and a probe that records its arguments, run on the simulated device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from accel_magic.devices.sim import SimulatedDevice
from accel_magic.gpu.inject import ProbeCode, inject
from accel_magic.gpu.program import context
from accel_magic.gpu.program.sections import EVERY_OPERATION, OF_BLOCKS, Attach, Where
from tests.support.paths import ROOT

SAMPLES = ROOT / "tests/unit/ptx/samples"

RECORDER = """
.version 6.3
.target sm_75
.address_size 64
.global .align 1 .b8 unused_text[4] = {{1, 2, 3, 4}};
.visible .func accel_record(
	{parameters}
)
{{
	.local .align 8 .b8 	__local_depot0[32];
	.reg .b64 	%SP;
	.reg .b64 	%SPL;
	.reg .pred 	%p<2>;
	.reg .b16 	%rs<2>;
	.reg .b32 	%r<9>;
	.reg .b64 	%rd<6>;
	mov.b64 	%SPL, __local_depot0;
	cvta.local.u64 	%SP, %SPL;
	ld.param.b64 	%rd1, [accel_record_param_0];
	ld.param.b32 	%r1, [accel_record_param_1];
	ld.param.b32 	%r2, [accel_record_param_2];
	ld.param.b32 	%r3, [accel_record_param_3];
	ld.param.b32 	%r4, [accel_record_param_4];
	ld.param.b32 	%r5, [accel_record_param_5];
	st.local.b64 	[%SPL+8], %rd1;
	mov.b64 	%rd2, {base};
	cvta.to.global.u64 	%rd3, %rd2;
	// The next one's number, if there is room.
	atom.global.add.u32 	%r6, [%rd3], 1;
	setp.ge.u32 	%p1, %r6, {room};
	@%p1 bra 	$L__BB0_2;
	mul.wide.u32 	%rd4, %r6, 32;
	add.s64 	%rd5, %rd3, %rd4;
	ld.b64 	%rd1, [%SP+8];
	mov.u32 	%r7, %tid.x;
	st.global.b64 	[%rd5+32], %rd1;
	st.global.v2.b32 	[%rd5+40], {{%r1, %r2}};
	st.global.v4.b32 	[%rd5+48], {{%r3, %r4, %r5, %r7}};
$L__BB0_2:
	ret;
}}
"""


class Record(NamedTuple):
    """One call of the probe: its arguments and thread."""

    address: int
    size: int
    space: int
    operation: int
    site: int
    kernel: int
    thread: int


LAYOUT = np.dtype(
    [("address", "<u8"), ("size", "<u4"), ("space", "<u4"), ("operation", "<u4")]
    + [(name, "<u4") for name in ("site", "kernel", "thread")]
)


@dataclass
class Ran:
    """Results of launching an instrumented kernel."""

    records: list[Record]
    outputs: list[np.ndarray]
    addresses: list[int]
    injection: object

    def at(self, **fields) -> list[Record]:
        """Return the records with these fields."""
        return [one for one in self.records if all(getattr(one, name) == value for name, value in fields.items())]


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.ptx").read_text()


def recorder(base: int = 1 << 32, room: int = 1 << 16) -> ProbeCode:
    given = enumerate(context.PARAMETERS)
    parameters = ",\n\t".join(f".param .b{8 * size} accel_record_param_{at}" for at, (_, size) in given)
    return ProbeCode("accel_record", RECORDER.format(base=base, room=room, parameters=parameters))


def everywhere(probe: ProbeCode) -> list[tuple[Attach, ProbeCode]]:
    return [(Attach(where, operations=EVERY_OPERATION), probe) for where in Where if where not in OF_BLOCKS]


def run(
    text, kernel, arguments, attaches=(), *, grid=(1, 1, 1), block=(32, 1, 1), shared=0, change=str, **options
) -> Ran:
    """Run a kernel with the recorder on the simulated device; array arguments are copied to the device and back."""
    device = SimulatedDevice(1 << 28)
    room = 1 << 15
    base = device.allocate(32 * (room + 1))
    device.copy_in(base, np.zeros(32 * (room + 1), np.uint8))
    probe = ProbeCode("accel_record", change(recorder(base, room).text))
    injection = inject(text, [(attach, probe) for attach in attaches], **options)
    addresses = [device.allocate(one.nbytes) if isinstance(one, np.ndarray) else 0 for one in arguments]
    for address, one in zip(addresses, arguments, strict=True):
        if address:
            device.copy_in(address, one)
    values = [address or one for address, one in zip(addresses, arguments, strict=True)]
    device.launch(device.load(injection.code), kernel, grid, block, values, shared_bytes=shared)
    outputs = [
        device.copy_out(address, one.nbytes).view(one.dtype).copy()
        for address, one in zip(addresses, arguments, strict=True)
        if address
    ]
    count = int(device.copy_out(base, 4).view(np.uint32)[0])
    assert count <= room
    rows = device.copy_out(base + 32, 32 * count).view(LAYOUT)
    return Ran([Record(*map(int, row)) for row in rows], outputs, [one for one in addresses if one], injection)


@pytest.fixture(scope="session")
def ptx():
    """The functions of this file, for tests that cannot import it."""

    class Tools:
        pass

    tools = Tools()
    for function in (sample, recorder, everywhere, run):
        setattr(tools, function.__name__, function)
    tools.source_lines = lambda name: (SAMPLES / name).read_text().splitlines()
    tools.samples = sorted(path.stem for path in SAMPLES.glob("*.ptx"))
    return tools
