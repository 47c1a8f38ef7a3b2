"""128-bit registers: moves, loads, stores and atomics of all their bytes."""

from __future__ import annotations

import numpy as np

from accel_magic.devices.sim import SimulatedDevice
from tests.unit.devices.sim.test_matrices import assembled

HEAD = ".version 8.6\n.target sm_80\n.address_size 64\n"
BODY = """
.visible .entry k(.param .u64 a, .param .u64 b) {{
.reg .b128 %q<4>; .reg .b64 %d<8>; .reg .b32 %r<8>;
ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b];
mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 16; add.u64 %d3, %d0, %d2; add.u64 %d4, %d1, %d2;
{0}
ret; }}
"""


def launched(body, first, second, threads=32):
    device = SimulatedDevice(1 << 20)
    source = HEAD + BODY.format(body)
    assembled(source)
    addresses = [device.allocate(array.nbytes) for array in (first, second)]
    for address, array in zip(addresses, (first, second), strict=True):
        device.copy_in(address, array)
    device.launch(device.load(source), "k", 1, threads, addresses)
    return [device.copy_out(address, first.nbytes).view(first.dtype) for address in addresses]


def test_wide_values_are_loaded_split_joined_and_stored():
    given = np.random.default_rng(3).integers(0, 2**63, 64, np.uint64)
    body = "ld.global.b128 %q0, [%d3]; mov.b128 {%d5, %d6}, %q0; mov.b128 %q1, {%d6, %d5};\n"
    body += "mov.b128 %q2, %q1; st.global.b128 [%d4], %q2;"
    _, got = launched(body, given, np.zeros(64, np.uint64))
    assert np.array_equal(got.reshape(-1, 2), given.reshape(-1, 2)[:, ::-1])


def test_a_wide_compare_and_swap_lets_one_thread_win_and_an_exchange_passes_values_on():
    memory = np.zeros(64, np.uint64)
    body = (
        "mov.u64 %d5, 0; cvt.u64.u32 %d6, %r0; add.u64 %d6, %d6, 1;\n"
        "mov.b128 %q0, {%d5, %d5}; mov.b128 %q1, {%d6, %d6};\n"
        "atom.global.cas.b128 %q2, [%d0], %q0, %q1; st.global.b128 [%d4], %q2;"
    )
    first, seen = launched(body, memory, np.zeros(64, np.uint64))
    winners = [lane for lane in range(32) if seen[2 * lane] == 0]
    assert len(winners) == 1
    assert first[:2].tolist() == [winners[0] + 1] * 2
    body = (
        "cvt.u64.u32 %d6, %r0; add.u64 %d6, %d6, 1; mov.b128 %q1, {%d6, %d6};\n"
        "atom.global.exch.b128 %q2, [%d0], %q1; st.global.b128 [%d4], %q2;"
    )
    first, seen = launched(body, memory, np.zeros(64, np.uint64))
    assert sorted([*seen[::2].tolist(), int(first[0])]) == list(range(33))
    assert np.array_equal(seen[::2], seen[1::2])
