"""Execution order: special registers, divergence, lane communication, virtual time, blocks on multiprocessors."""

from __future__ import annotations

import numpy as np
import pytest

from accel_magic.devices.sim import SimulatedDevice
from tests.support.one_instruction import run

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def execute(body, *, grid=1, block=32, words=1, device=None, given=None, shared=0):
    """Run instructions that write up to four results to %o0 to %o3; returns shape (threads of the grid, words)."""
    device = device or SimulatedDevice(1 << 24)
    threads = int(np.prod(grid)) * int(np.prod(block))
    stores = "".join(f"st.global.u64 [%out+{8 * i}], %o{i};\n" for i in range(words))
    text = (
        f"{HEAD}.extern .shared .align 16 .b8 dynamic[];\n.visible .entry k(.param .u64 out, .param .u64 in)\n{{\n"
        ".reg .pred %p<6>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n.reg .b64 %o<4>;\n.reg .b64 %out;\n.reg .b32 %me;\n"
        ".reg .b32 %x<9>;\n"
        "mov.u32 %x0, %ntid.x;\nmov.u32 %x1, %ntid.y;\nmov.u32 %x2, %ntid.z;\nmov.u32 %x3, %ctaid.x;\n"
        "mov.u32 %x4, %tid.x;\nmov.u32 %x5, %tid.y;\nmov.u32 %x6, %tid.z;\nmad.lo.u32 %me, %x6, %x1, %x5;\n"
        "mad.lo.u32 %me, %me, %x0, %x4;\nmul.lo.u32 %x7, %x0, %x1;\nmul.lo.u32 %x7, %x7, %x2;\n"
        "mov.u32 %x8, %nctaid.x;\nmov.u32 %x0, %ctaid.y;\nmad.lo.u32 %x3, %x0, %x8, %x3;\n"
        "mad.lo.u32 %me, %x3, %x7, %me;\n"
        f"ld.param.u64 %out, [out];\nmad.wide.u32 %out, %me, {8 * words}, %out;\n{body}\n{stores}ret;\n}}\n"
    )
    out = device.allocate(8 * threads * words)
    source = np.zeros(1, np.uint64) if given is None else given
    address = device.allocate(source.nbytes)
    device.copy_in(address, source)
    launch = device.launch(device.load(text), "k", grid, block, [out, address], shared)
    return device.copy_out(out, 8 * threads * words).view(np.uint64).reshape(threads, words), launch


def special(name, **shape):
    kind = "u64" if name in ("%gridid", "%clock64", "%globaltimer") else "u32"
    if kind == "u64":
        return execute(f"mov.u64 %o0, {name};", **shape)[0][:, 0]
    return execute(f"mov.u32 %r0, {name};\ncvt.u64.u32 %o0, %r0;", **shape)[0][:, 0]


def test_special_registers_give_every_thread_its_position():
    shape = {"grid": (3, 2), "block": (5, 4, 3)}
    x, y, z = np.unravel_index(np.arange(60), (3, 4, 5))[::-1]
    for axis, place in (("x", x), ("y", y), ("z", z)):
        assert np.array_equal(special(f"%tid.{axis}", **shape), np.tile(place, 6))
    assert np.array_equal(special("%ctaid.x", **shape), np.repeat([0, 1, 2, 0, 1, 2], 60))
    assert np.array_equal(special("%ctaid.y", **shape), np.repeat([0, 0, 0, 1, 1, 1], 60))
    assert set(special("%ctaid.z", **shape)) == {0}
    for name, value in (
        ("%ntid.x", 5),
        ("%ntid.y", 4),
        ("%ntid.z", 3),
        ("%nctaid.x", 3),
        ("%nctaid.y", 2),
        ("%nsmid", 4),
    ):
        assert set(special(name, **shape)) == {value}
    assert np.array_equal(special("%laneid", **shape), np.tile(np.arange(60) % 32, 6))
    assert np.array_equal(special("%warpid", **shape), np.tile(np.arange(60) // 32, 6))
    lane = np.arange(60) % 32
    masks = {
        "eq": 1 << lane,
        "lt": (1 << lane) - 1,
        "le": (2 << lane) - 1,
        "gt": 2**32 - (2 << lane),
        "ge": 2**32 - (1 << lane),
    }
    for name, mask in masks.items():
        assert np.array_equal(special(f"%lanemask_{name}", **shape), np.tile(mask, 6))
    assert set(special("%dynamic_smem_size", shared=640, **shape)) == {640}


def test_launches_are_numbered():
    device = SimulatedDevice(1 << 20)
    assert [int(special("%gridid", device=device)[0]) for _ in range(3)] == [1, 2, 3]


def test_partial_warps_and_divergence_show_in_the_active_mask():
    body = (
        "mov.u32 %r1, %laneid;\nand.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 1;\n@%p1 bra odd;\nactivemask.b32 %r3;\n"
        "bra join;\nodd:\nactivemask.b32 %r3;\njoin:\nactivemask.b32 %r4;\ncvt.u64.u32 %o0, %r3;\ncvt.u64.u32 %o1, %r4;"
    )
    out, _ = execute(body, block=40, words=2)
    assert out[:32, 0].tolist() == [0x55555555, 0xAAAAAAAA] * 16
    assert out[32:, 0].tolist() == [0x55, 0xAA] * 4
    assert set(out[:32, 1]) == {0xFFFFFFFF}
    assert set(out[32:, 1]) == {0xFF}


def test_lanes_leave_a_loop_after_their_own_number_of_iterations():
    body = (
        "mov.u32 %r1, %me;\nmov.u32 %r2, 0;\nloop:\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra done;\nadd.u32 %r2, %r2, %r1;\n"
        "sub.u32 %r1, %r1, 1;\nbra loop;\ndone:\ncvt.u64.u32 %o0, %r2;"
    )
    out, launch = execute(body, grid=3, block=70)
    n = np.arange(210)
    assert np.array_equal(out[:, 0], n * (n + 1) // 2)
    # 17 of the preamble, 2 before the loop, 5 per iteration, 2 to leave it, then 3.
    assert launch.instructions == (17 + 2 + 5 * n + 2 + 3).sum()


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("c", [0x1F, 0x181F, 0x1007, 0])
def test_shuffles_follow_the_manuals_pseudo_code(mode, c):
    rng = np.random.default_rng(3)
    values, by = rng.integers(0, 2**32, 64, np.uint64), rng.integers(0, 40, 64)
    got, inside = run(
        f"shfl.sync.{mode}.b32 {{d0}}|{{d1}}, {{s0}}, {{s1}}, {c}, 0xffffffff",
        ["u32", "pred"],
        ["u32", "u32"],
        values.tolist(),
        by.tolist(),
    )
    for thread in range(64):
        lane, b = thread % 32, int(by[thread]) & 31
        segment, clamp = c >> 8 & 31, c & 31
        most, least = (lane & segment) | (clamp & ~segment), lane & segment
        source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": least | (b & ~segment)}[mode]
        good = source >= most if mode == "up" else source <= most
        assert bool(inside[thread]) == good
        assert got[thread] == values[thread - lane + (source if good else lane)]


def test_shuffles_wait_for_lanes_from_other_branches():
    body = (
        "mov.u32 %r1, %laneid;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bra low;\nadd.u32 %r2, %r1, 100;\nbra meet;\nlow:\n"
        "add.u32 %r2, %r1, 200;\nnanosleep.u32 50;\nmeet:\n"
        "shfl.sync.bfly.b32 %r3, %r2, 16, 0x1f, -1;\ncvt.u64.u32 %o0, %r3;"
    )
    out, _ = execute(body)
    assert out[:, 0].tolist() == [100 + (i ^ 16) for i in range(16)] + [200 + (i ^ 16) for i in range(16, 32)]


def test_reductions_matches_and_elections_cover_the_lanes_of_their_mask():
    body = (
        "mov.u32 %r1, %laneid;\nand.b32 %r2, %r1, 3;\nmul.lo.u32 %r3, %r1, %r1;\nredux.sync.add.u32 %r4, %r3, -1;\n"
        "redux.sync.max.s32 %r5, %r3, -1;\nmatch.any.sync.b32 %r6, %r2, -1;\nmatch.all.sync.b32 %r7|%p1, %r2, -1;\n"
        "selp.u32 %r8, 1, 0, %p1;\nadd.u32 %r7, %r7, %r8;\ncvt.u64.u32 %o0, %r4;\ncvt.u64.u32 %o1, %r5;\n"
        "cvt.u64.u32 %o2, %r6;\ncvt.u64.u32 %o3, %r7;"
    )
    out, _ = execute(body, words=4)
    assert set(out[:, 0]) == {sum(i * i for i in range(32))}
    assert set(out[:, 1]) == {31 * 31}
    assert out[:, 2].tolist() == [sum(1 << j for j in range(32) if j % 4 == i % 4) for i in range(32)]
    assert set(out[:, 3]) == {0}


@pytest.mark.parametrize(
    ("name", "kind", "model"),
    [
        ("add", "u32", lambda m, v: (m + v) % 2**32),
        ("min", "s32", min),
        ("max", "u64", max),
        ("and", "b32", lambda m, v: m & v),
        ("or", "b64", lambda m, v: m | v),
        ("xor", "b32", lambda m, v: m ^ v),
        ("exch", "b32", lambda m, v: v),
        ("inc", "u32", lambda m, v: 0 if m >= v else m + 1),
        ("dec", "u32", lambda m, v: v if m == 0 or m > v else m - 1),
        ("add", "u64", lambda m, v: (m + v) % 2**64),
        ("add", "f32", lambda m, v: float(np.float32(m) + np.float32(v))),
        ("add", "f64", lambda m, v: m + v),
    ],
)
@pytest.mark.parametrize("places", [1, 7, 200])
def test_atomics_give_each_lane_what_its_predecessors_left(name, kind, model, places):
    bits = int(kind[1:])
    rng = np.random.default_rng(places)
    dtype = {"f": f"f{bits // 8}", "s": f"i{bits // 8}"}.get(kind[0], f"u{bits // 8}")
    values = rng.integers(0, 50, 96).astype(dtype) if kind[0] != "f" else (rng.random(96) * 3).astype(dtype)
    memory = (rng.random(places) * 20).astype(dtype)
    where = rng.integers(0, places, 96)
    text = (
        f"{HEAD}.visible .entry k(.param .u64 m, .param .u64 w, .param .u64 v, .param .u64 o)\n{{\n.reg .b64 %a<8>;\n"
        f".reg .b32 %t<4>;\n.reg .b{bits} %x<4>;\nmov.u32 %t0, %tid.x;\nld.param.u64 %a0, [m];\n"
        "ld.param.u64 %a1, [w];\n"
        f"ld.param.u64 %a2, [v];\nld.param.u64 %a3, [o];\nmad.wide.u32 %a1, %t0, 8, %a1;\n"
        f"mad.wide.u32 %a2, %t0, {bits // 8}, %a2;\nmad.wide.u32 %a3, %t0, {bits // 8}, %a3;\n"
        "ld.global.u64 %a4, [%a1];\n"
        f"mad.lo.u64 %a0, %a4, {bits // 8}, %a0;\nld.global.b{bits} %x0, [%a2];\n"
        f"atom.global.{name}.{kind} %x1, [%a0], %x0;\nst.global.b{bits} [%a3], %x1;\nret;\n}}\n"
    )
    device = SimulatedDevice(1 << 20)
    addresses = []
    for array in (memory, where.astype(np.uint64), values, np.zeros_like(values)):
        addresses.append(device.allocate(array.nbytes))
        device.copy_in(addresses[-1], array)
    device.launch(device.load(text), "k", 1, 96, addresses)
    left, before = memory.tolist(), []
    for place, value in zip(where, values.tolist(), strict=True):
        before.append(left[place])
        left[place] = model(left[place], value)
    assert device.copy_out(addresses[3], values.nbytes).view(dtype).tolist() == before
    assert device.copy_out(addresses[0], memory.nbytes).view(dtype).tolist() == left


def test_compare_and_swap_lets_one_lane_of_each_place_win():
    body = (
        "ld.param.u64 %rd1, [in];\nmov.u32 %r1, %tid.x;\nand.b32 %r2, %r1, 3;\nmad.wide.u32 %rd1, %r2, 8, %rd1;\n"
        "cvt.u64.u32 %rd2, %r1;\nadd.u64 %rd2, %rd2, 1000;\natom.cas.b64 %o0, [%rd1], 5, %rd2;"
    )
    out, _ = execute(body, block=64, given=np.full(4, 5, np.uint64))
    expected = [5 if i < 4 else 1000 + i % 4 for i in range(64)]
    assert out[:, 0].tolist() == expected


def test_asynchronous_copies_complete_and_fill_with_zeros():
    body = (
        "mov.u32 %r1, %tid.x;\nmov.u32 %r2, dynamic;\nmad.lo.u32 %r2, %r1, 16, %r2;\nld.param.u64 %rd1, [in];\n"
        "mad.wide.u32 %rd1, %r1, 16, %rd1;\nand.b32 %r3, %r1, 1;\nmul.lo.u32 %r3, %r3, 8;\nadd.u32 %r3, %r3, 4;\n"
        "cp.async.ca.shared.global [%r2], [%rd1], 16, %r3;\ncp.async.commit_group;\ncp.async.wait_group 0;\n"
        "bar.sync 0;\nxor.b32 %r2, %r2, 16;\nld.shared.v2.u64 {%o0, %o1}, [%r2];"
    )
    given = np.arange(1, 65, dtype=np.uint64) * 0x0101010101010101
    out, _ = execute(body, words=2, given=given, shared=512)
    for i in range(32):
        low, high = (int(x) for x in given[2 * (i ^ 1) : 2 * (i ^ 1) + 2])
        expected = (low & 0xFFFFFFFF, 0) if i % 2 else (low, high & 0xFFFFFFFF)
        assert tuple(out[i].tolist()) == expected


def test_matrix_products_of_tensor_cores_equal_integer_arithmetic():
    rng = np.random.default_rng(8)
    a, b, c = rng.integers(-4, 5, (16, 16)), rng.integers(-4, 5, (16, 8)), rng.integers(-9, 9, (16, 8))
    g, t = np.arange(32) // 4, np.arange(32) % 4
    halves = lambda row: [int(x) | int(y) << 16 for x, y in row.astype(np.float16).view(np.uint16)]  # noqa: E731 - short

    def pack(matrix, rows, columns):
        return halves(np.stack([matrix[rows, columns], matrix[rows, columns + 1]], axis=1))

    left = [pack(a, g + 8 * (i % 2), 2 * t + 8 * (i // 2)) for i in range(4)]
    right = [pack(b.T, g, 2 * t + 8 * i) for i in range(2)]
    sums = [c[g + 8 * (i // 2), 2 * t + i % 2].astype(np.float32) for i in range(4)]
    got = run(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{{d0},{d1},{d2},{d3}}}, {{{s0},{s1},{s2},{s3}}},"
        " {{{s4},{s5}}}, {{{s6},{s7},{s8},{s9}}}",
        ["f32"] * 4,
        ["b32"] * 6 + ["f32"] * 4,
        *left,
        *right,
        *sums,
    )
    product = a @ b + c
    for i in range(4):
        assert got[i].tolist() == product[g + 8 * (i // 2), 2 * t + i % 2].tolist()


def test_a_warps_clock_advances_with_its_own_work():
    body = (
        "mov.u64 %rd1, %clock64;\nshr.u32 %r1, %me, 5;\nmul.lo.u32 %r1, %r1, 10;\nloop:\nsetp.eq.u32 %p1, %r1, 0;\n"
        "@%p1 bra done;\nsub.u32 %r1, %r1, 1;\nbra loop;\ndone:\nmov.u64 %rd2, %clock64;\nsub.u64 %o0, %rd2, %rd1;"
    )
    out, _ = execute(body, block=128)
    spans = out[::32, 0].astype(int)
    assert np.array_equal(out[:, 0], np.repeat(spans, 32))
    assert np.ptp(np.diff(spans)) == 0
    assert spans[1] - spans[0] == 40


def test_a_barrier_synchronizes_the_clocks_of_a_block():
    body = (
        "setp.lt.u32 %p1, %me, 32;\n@%p1 bra meet;\nnanosleep.u32 5000;\nmeet:\nbar.sync 0;\nmov.u64 %o0, %globaltimer;"
    )
    out, _ = execute(body, block=64)
    assert len(set(out[:, 0].tolist())) == 1


def test_blocks_alternate_between_multiprocessors_and_later_ones_begin_when_others_end():
    device = SimulatedDevice(1 << 24, multiprocessors=2)
    body = (
        "mov.u32 %r1, %smid;\ncvt.u64.u32 %o0, %r1;\nmov.u64 %o1, %globaltimer;\nsetp.ne.u32 %p1, %x3, 0;\n"
        "@%p1 bra go;\nnanosleep.u32 100000;\ngo:\nmov.u64 %o2, %globaltimer;"
    )
    out, launch = execute(body, grid=12, block=1024, words=3, device=device)
    blocks = out[::1024].astype(np.int64)
    smid, begin, end = blocks.T
    assert smid[:4].tolist() == [0, 1, 0, 1]
    assert len(set(begin[:4].tolist())) == 1
    assert begin[4] >= end[1]
    assert end[0] - begin[0] >= 100_000
    # Others do not wait for the one long block, which occupies only its own slot.
    assert max(end[1:]) < end[0]
    assert launch.duration_ns >= 100_000
    assert launch.start_ns <= begin.min()
    assert device.time_ns == launch.start_ns + launch.duration_ns


def test_the_same_launch_takes_the_same_time_on_every_device():
    body = "mov.u64 %o0, %globaltimer;\nmov.u32 %r1, %smid;\ncvt.u64.u32 %o1, %r1;"
    first, second = (execute(body, grid=100, block=64, words=2) for _ in range(2))
    assert np.array_equal(first[0], second[0])
    assert first[1] == second[1]


def test_instructions_are_counted_for_threads_and_warps():
    body = ".reg .b32 %r<2>;\nmov.u32 %r0, 1;\nadd.u32 %r1, %r0, 1;\nbar.sync 0;\nret;\n"
    text = f"{HEAD}.visible .entry k()\n{{\n{body}}}\n"
    device = SimulatedDevice(1 << 20)
    launch = device.launch(device.load(text), "k", (3, 2), 40, [])
    assert (launch.instructions, launch.warp_instructions, launch.barriers) == (6 * 40 * 4, 6 * 2 * 4, 6)


def test_inner_scopes_may_reuse_names_of_outer_ones():
    body = (
        "mov.u32 %r1, 7;\n{\n.reg .b32 %r1;\nmov.u32 %r1, 9;\nsetp.eq.u32 %p1, %r1, 9;\n@%p1 bra skip;\n"
        "mov.u32 %r2, 1;\n"
        "skip:\n}\n{\n.reg .b32 %r1;\nmov.u32 %r1, 3;\nbra skip;\nmov.u32 %r1, 4;\nskip:\nmov.u32 %r3, %r1;\n}\n"
        "add.u32 %r4, %r1, %r3;\ncvt.u64.u32 %o0, %r4;"
    )
    out, _ = execute(body)
    assert set(out[:, 0]) == {10}


def test_variables_have_their_initial_values():
    before = (
        ".global .align 4 .u32 table[2][3] = {{1, 2, 3}, {4, 5}};\n.const .align 8 .f64 half = 0.5;\n"
        ".global .align 8 .u64 where = generic(table)+8;\n.global .align 4 .f32 one[2] = {0f3F800000, 2.0};\n"
    )
    device = SimulatedDevice(1 << 20)
    module = device.load(f"{HEAD}{before}.visible .entry k()\n{{\nret;\n}}\n")
    read = lambda name, dtype: device.view(*module.globals[name]).view(dtype).tolist()  # noqa: E731 - short
    assert read("table", np.uint32) == [1, 2, 3, 4, 5, 0]
    assert read("half", np.float64) == [0.5]
    assert read("where", np.uint64) == [module.globals["table"][0] + 8]
    assert read("one", np.float32) == [1.0, 2.0]


def test_a_barrier_with_a_count_counts_a_partial_warp_as_a_whole_one():
    out, launch = execute("bar.sync 1, 64;\nmov.u64 %o0, 3;", block=40)
    assert set(out[:, 0]) == {3}
    assert launch.barriers == 1


def test_a_lane_whose_compare_and_swap_failed_does_not_swap_later():
    body = (
        "ld.param.u64 %rd1, [in];\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\nselp.u64 %rd2, 7, 5, %p1;\n"
        "selp.u64 %rd3, 9, 7, %p1;\natom.cas.b64 %o0, [%rd1], %rd2, %rd3;\nbar.sync 0;\nld.global.u64 %o1, [%rd1];"
    )
    out, _ = execute(body, block=2, words=2, given=np.array([5], np.uint64))
    assert out.tolist() == [[5, 7], [5, 7]]


def test_a_predicated_call_does_not_affect_other_lanes():
    text = (
        f"{HEAD}.func (.param .b32 r) f (.param .b32 a)\n{{\n.reg .b32 %r<2>;\n.local .align 4 .b32 own[4];\n"
        "ld.param.b32 %r0, [a];\nst.local.b32 [own+4], %r0;\nld.local.b32 %r1, [own+4];\nadd.u32 %r1, %r1, 100;\n"
        "st.param.b32 [r], %r1;\nret;\n}\n.visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<4>;\n.reg .b64 %rd<2>;\n"
        ".reg .pred %p;\n.local .align 4 .b32 mine[1];\nmov.u32 %r0, %tid.x;\nst.local.b32 [mine], %r0;\n"
        "mul.lo.u32 %r1, %r0, 2;\nsetp.lt.u32 %p, %r0, 5;\n{\n.param .b32 x;\n.param .b32 y;\nst.param.b32 [x], %r1;\n"
        "st.param.b32 [y], %r1;\n@%p call (y), f, (x);\nld.param.b32 %r2, [y];\n}\nld.local.b32 %r3, [mine];\n"
        "mad.lo.u32 %r2, %r3, 1000, %r2;\nld.param.u64 %rd0, [out];\nmad.wide.u32 %rd0, %r0, 4, %rd0;\n"
        "st.global.b32 [%rd0], %r2;\nret;\n}\n"
    )
    device = SimulatedDevice(1 << 20)
    out = device.allocate(4 * 40)
    device.launch(device.load(text), "k", 1, 40, [out])
    expected = [1000 * i + 2 * i + (100 if i < 5 else 0) for i in range(40)]
    assert device.copy_out(out, 160).view(np.uint32).tolist() == expected
