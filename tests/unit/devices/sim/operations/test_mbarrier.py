"""Barriers in shared memory and bulk copies: the manual's rules for phases, counts and bytes."""

from __future__ import annotations

import numpy as np
import pytest

from accel_magic.devices.sim import SimulatedDevice
from tests.support.errors import raises

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
.shared .align 16 .b8 tile[512];
.shared .align 8 .b8 bar[16];
.reg .pred %p<4>;
.reg .b32 %r<12>;
.reg .b64 %rd<8>;
mov.u32 %r0, %tid.x;
mov.u32 %r1, bar;
mov.u32 %r2, tile;
ld.param.u64 %rd0, [in];
ld.param.u64 %rd1, [out];
mad.wide.u32 %rd1, %r0, 4, %rd1;
setp.eq.u32 %p0, %r0, 0;
mov.u32 %r9, 0;
"""
TAIL = "\nst.global.u32 [%rd1], %r9;\nret;\n}\n"
INIT = "@%p0 mbarrier.init.shared::cta.b64 [%r1], {count};\nbar.sync 0;\n"
ARRIVE = "mbarrier.arrive.shared::cta.b64 %rd2, [%r1];\n"
OVER = "mbarrier.test_wait.shared::cta.b64 %p1, [%r1], %rd2;\nselp.u32 {into}, 1, 0, %p1;\n"


def ran(body, threads=32, given=None):
    """Return each thread's final value of %r9."""
    device = SimulatedDevice(1 << 20)
    given = np.zeros(128, np.int32) if given is None else given
    addresses = [device.allocate(512), device.allocate(4 * threads)]
    device.copy_in(addresses[0], given)
    device.launch(device.load(HEAD + body + TAIL), "k", 1, threads, addresses)
    return device.copy_out(addresses[1], 4 * threads).view(np.uint32).tolist()


def test_copies_of_a_pipeline_have_arrived_after_the_wait(bench):
    blocks, tiles = 3, 5
    given = np.arange(blocks * tiles * 128, dtype=np.int32)
    _, out = bench.run("pipelines", "staged", blocks, 64, given, np.zeros_like(given), tiles)

    tile = given.reshape(-1, 128)
    expected = np.stack([tile[:, :63:-1], 2 * tile[:, 63::-1]], axis=1)
    assert np.array_equal(out.reshape(-1, 2, 64), expected)


def test_a_phase_ends_with_its_last_arrival_and_the_next_one_begins():
    late = "@!%p0 bra on;\nnanosleep.u32 1;\non:\n"
    body = INIT.format(count=32) + late + "@%p0 bra last;\n" + ARRIVE + OVER.format(into="%r9")
    body += "last:\nbar.sync 0;\n@!%p0 bra done;\n" + ARRIVE + OVER.format(into="%r9") + "done:\n"
    # After 31 arrivals the phase is not complete; after the last one it is.
    assert ran(body) == [1] + [0] * 31


def test_all_threads_see_a_phase_complete_together_and_each_phase_flips_the_parity():
    asked = "".join(
        f"mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], {parity};\nselp.u32 %r3, {bit}, 0, %p1;\n"
        "or.b32 %r9, %r9, %r3;\n"
        for parity, bit in ((0, 1), (1, 2))
    )
    begin = INIT.format(count=32)
    assert ran(begin + asked) == [2] * 32, "the phase before the first one is over"
    assert ran(begin + ARRIVE + "bar.sync 0;\n" + asked) == [1] * 32
    assert ran(begin + 2 * (ARRIVE + "bar.sync 0;\n") + asked) == [2] * 32


def test_a_phase_waits_for_the_bytes_that_were_announced():
    announced = "@%p0 mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd2, [%r1], 256;\n"
    begin = INIT.format(count=1) + announced
    brought = (
        "@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+64], [%rd0], {bytes}, [%r1];\n"
    )
    read = "bar.sync 0;\nmad.lo.u32 %r4, %r0, 4, %r2;\nld.shared.u32 %r5, [%r4+64];\n"
    over = "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;\nselp.u32 %r9, %r5, 7777, %p1;\n"
    given = np.arange(100, 228, dtype=np.int32)
    assert ran(begin + brought.format(bytes=128) + read + over, given=given) == [7777] * 32
    assert ran(begin + 2 * brought.format(bytes=128) + read + over, given=given) == list(range(100, 132))
    assert ran(begin + "@%p0 mbarrier.complete_tx.shared::cta.b64 [%r1], 256;\n" + read + over, given=given) == [0] * 32


def test_bytes_that_arrive_before_they_are_announced_do_not_end_a_phase():
    copy = "@%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 64, [%r1];\nbar.sync 0;\n"
    parity = "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;\nselp.u32 {into}, 1, 0, %p1;\n"
    body = INIT.format(count=1) + copy + parity.format(into="%r3") + "bar.sync 0;\n"
    body += "@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 64;\nbar.sync 0;\n" + parity.format(into="%r4")
    assert ran(body + "mad.lo.u32 %r9, %r3, 10, %r4;\n") == [1] * 32


def test_threads_that_drop_out_are_no_longer_expected():
    body = INIT.format(count=32) + "setp.lt.u32 %p2, %r0, 12;\n@%p2 mbarrier.arrive_drop.shared::cta.b64 %rd2, [%r1];\n"
    body += "@!%p2 mbarrier.arrive.shared::cta.b64 %rd2, [%r1];\nbar.sync 0;\n"
    # The first phase is over; the second one has 20 pending arrivals.
    body += "@%p0 mbarrier.arrive.shared::cta.b64 %rd2, [%r1];\n@%p0 mbarrier.pending_count.b64 %r9, %rd2;\n"
    assert ran(body)[0] == 20


def test_bulk_copies_can_write_to_global_memory():
    body = "mad.lo.u32 %r4, %r0, 4, %r2;\nst.shared.u32 [%r4], %r0;\nbar.sync 0;\nfence.proxy.async.shared::cta;\n"
    body += "@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd0+128], [%r2], 128;\n"
    body += "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\nbar.sync 0;\n"
    body += "mad.wide.u32 %rd3, %r0, 4, %rd0;\nld.global.u32 %r9, [%rd3+128];\n"
    assert ran(body) == list(range(32))


def test_a_threads_copies_can_be_waited_for_through_an_arrival():
    copy = (
        "mad.wide.u32 %rd3, %r0, 4, %rd0;\nmad.lo.u32 %r4, %r0, 4, %r2;\ncp.async.ca.shared.global [%r4], [%rd3], 4;\n"
    )
    arrive = "cp.async.mbarrier.arrive{noinc}.shared.b64 [%r1];\nbar.sync 0;\n"
    over = "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;\nselp.u32 %r9, 1, 0, %p1;\n"
    begin = INIT.format(count=32) + copy
    assert ran(begin + arrive.format(noinc=".noinc") + over) == [1] * 32
    assert ran(begin + arrive.format(noinc="") + over) == [0] * 32


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (INIT.format(count=31) + ARRIVE, "gpu.fault.barrier-overrun"),
        (
            "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%rd0], 24, [%r1];\n",
            "gpu.fault.bad-bulk-copy",
        ),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 1024;\n", "gpu.fault.out-of-bounds"),
        ("mbarrier.init.shared::cta.b64 [%r1+4], 1;\n", "gpu.fault.misaligned"),
    ],
)
def test_invalid_use_of_barriers_and_copies_faults(body, code):
    with raises(code):
        ran(body)
