"""Values that injected programs see, and unchanged results, by running the kernels on the simulated device."""

from __future__ import annotations

import numpy as np
import pytest

from accel_magic.gpu.program.context import Operation, Space
from accel_magic.gpu.program.sections import EVERY_OPERATION, Attach, Where

pytestmark = pytest.mark.component

MEMORY = Attach(Where.MEMORY, operations=EVERY_OPERATION)
GLOBAL, SHARED = int(Space.GLOBAL), int(Space.SHARED)
LOAD, STORE, ATOMIC = int(Operation.LOAD), int(Operation.STORE), int(Operation.ATOMIC)


def floats(count, seed=1):
    return np.random.default_rng(seed).random(count, dtype=np.float32)


def test_each_thread_of_a_vector_add_reports_its_three_addresses(ptx):
    a, b = floats(40), floats(40, 2)
    ran = ptx.run(ptx.sample("kernels"), "vector_add", [a, b, np.zeros(40, np.float32), 40], [MEMORY], block=(64, 1, 1))

    np.testing.assert_array_equal(ran.outputs[2], a + b)
    at_a, at_b, at_c = ran.addresses
    expected = {
        (base + 4 * thread, 4, GLOBAL, operation, thread)
        for base, operation in ((at_a, LOAD), (at_b, LOAD), (at_c, STORE))
        for thread in range(40)
    }
    assert {(one.address, one.size, one.space, one.operation, one.thread) for one in ran.records} == expected
    assert len(ran.records) == 120


def test_only_selected_operations_are_reported(ptx):
    stores = Attach(Where.MEMORY, operations=frozenset({Operation.STORE}))
    arguments = [floats(32), floats(32), np.zeros(32, np.float32), 32]
    ran = ptx.run(ptx.sample("kernels"), "vector_add", arguments, [stores])

    assert {one.operation for one in ran.records} == {STORE}
    assert len(ran.records) == 32


def test_vectors_are_reported_whole_and_predicated_accesses_only_if_the_predicate_holds(ptx):
    n, threads = 20, 32
    values = floats(4 * threads)
    pairs = np.arange(2 * threads, dtype=np.int16)
    out = np.zeros(4 * threads, np.float32)
    ran = ptx.run(ptx.sample("kernels"), "vectors", [values, out, pairs, n], [MEMORY])

    at_in, at_out, at_pairs = ran.addresses
    found = {(one.address, one.size, one.operation) for one in ran.records}
    assert found == (
        {(at_in + 16 * i, 16, LOAD) for i in range(threads)}
        | {(at_pairs + 4 * i, 4, LOAD) for i in range(threads)}
        | {(at_out + 16 * i, 16, STORE) for i in range(n)}
        | {(at_out + 16 * i + 8, 8, STORE) for i in range(n, threads)}
    )
    expected = values.reshape(-1, 4).copy()
    expected[:, :2] += pairs.reshape(-1, 2)
    expected[n:, :2] = 0
    np.testing.assert_array_equal(ran.outputs[1].reshape(-1, 4), expected)


def test_32_bit_shared_addresses_are_reported_as_offsets_in_shared_memory(ptx):
    a, b = floats(256), floats(256, 2)
    arguments = [a, b, np.zeros(256, np.float32), 16]
    ran = ptx.run(ptx.sample("kernels"), "matmul", arguments, [MEMORY], block=(16, 16, 1))

    shared = [one for one in ran.records if one.space == SHARED]
    assert {one.address for one in shared} == set(range(0, 2048, 4))
    # 2 stores and 16 times 2 loads in each of 256 threads.
    assert len(shared) == 256 * 34
    assert len(ran.at(space=GLOBAL, operation=LOAD)) == 512
    np.testing.assert_allclose(ran.outputs[2].reshape(16, 16), a.reshape(16, 16) @ b.reshape(16, 16), rtol=1e-5)


def test_a_carry_chain_is_not_split_and_its_accesses_are_still_reported(ptx):
    numbers = np.random.default_rng(3).integers(0, 1 << 32, 128, dtype=np.uint64).astype(np.uint32)
    plain = ptx.run(ptx.sample("kernels"), "carries", [numbers, np.zeros(130, np.uint32)], [])
    ran = ptx.run(ptx.sample("kernels"), "carries", [numbers, np.zeros(130, np.uint32)], [MEMORY])

    for traced, untraced in zip(ran.outputs, plain.outputs, strict=True):
        np.testing.assert_array_equal(traced, untraced)
    base = ran.addresses[0]
    assert {(one.address, one.size) for one in ran.at(operation=LOAD)} == (
        {(base + 16 * i + 4 * word, 4) for i in range(32) for word in (0, 1)}
        | {(base + 16 * i + 8, 8) for i in range(32)}
    )
    chain = ran.injection.code[ran.injection.code.index("add.cc.u32") : ran.injection.code.index("addc.u32")]
    assert "bra" not in chain
    assert "{" not in chain


def test_every_thread_reports_its_exit_once(ptx):
    values = np.array([-3, 1, 97, 6, 27, 0, 5, 3] * 8, np.int32)
    ran = ptx.run(
        ptx.sample("kernels"),
        "early_returns",
        [values, np.zeros(64, np.int32), 60],
        [Attach(Where.EXIT)],
        block=(64, 1, 1),
    )

    assert sorted(one.thread for one in ran.records) == list(range(64))


def test_a_thread_that_exits_in_a_device_function_is_reported(ptx):
    values = np.array([1, -1] * 16, np.int32)
    ran = ptx.run(ptx.sample("kernels"), "calls", [values, np.zeros(32, np.int32)], [Attach(Where.EXIT)])

    assert sorted(one.thread for one in ran.records) == list(range(32))
    by_function = {site.number: site.function for site in ran.injection.sites}
    ended = {one.thread for one in ran.records if "doubled" in by_function[one.site]}
    assert ended == set(range(1, 32, 2))


def test_lanes_that_branch_to_the_end_exit_there_and_do_not_wait_for_the_others(ptx):
    text = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry early(.param .u64 early_param_0)
{
	.reg .pred %p<3>;
	.reg .b32 %r<4>;
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, 0;
	setp.gt.u32 %p1, %r1, 3;
	@%p1 bra $END;
$AGAIN:
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p2, %r2, 1000;
	@%p2 bra $AGAIN;
$END:
	ret;
}
"""
    ran = ptx.run(text, "early", [np.zeros(1, np.int32)], [Attach(Where.EXIT)])

    sites = ran.injection.sites
    assert [site.instruction for site in sites] == ["@%p1 bra $END;", "ret;"]
    by_site = {site.number: {one.thread for one in ran.at(site=site.number)} for site in sites}
    assert by_site == {0: set(range(4, 32)), 1: {0, 1, 2, 3}}


def test_the_end_of_a_body_without_a_return_is_an_exit(ptx):
    text = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry falls(.param .u64 falls_param_0)
{
	.reg .pred %p<2>;
	.reg .b32 %r<2>;
	mov.u32 %r1, %tid.x;
	setp.gt.u32 %p1, %r1, 3;
	@%p1 ret;
}
"""
    ran = ptx.run(text, "falls", [np.zeros(1, np.int32)], [Attach(Where.EXIT)])

    by_site = {site: {one.thread for one in ran.at(site=site)} for site in (0, 1)}
    assert by_site == {0: set(range(4, 32)), 1: {0, 1, 2, 3}}


def test_kernel_entries_and_device_function_calls_and_returns_are_reported(ptx):
    values = np.full(32, 5, np.int32)
    attaches = [Attach(Where.ENTRY), Attach(Where.FUNCTION, "fibonacci"), Attach(Where.FUNCTION_EXIT, "*fibonacci*")]
    ran = ptx.run(ptx.sample("kernels"), "calls", [values, np.zeros(32, np.int32)], attaches)

    calls = {0: 1, 1: 1}
    for n in range(2, 8):
        calls[n] = 1 + calls[n - 1] + calls[n - 2]
    where = {site.number: site.where for site in ran.injection.sites}
    counts = {kind: sum(where[one.site] is kind for one in ran.records) for kind in Where}
    assert counts[Where.ENTRY] == 32
    assert counts[Where.FUNCTION] == counts[Where.FUNCTION_EXIT] == 4 * sum(calls[i & 7] for i in range(8))


def test_a_branch_reports_which_lanes_take_it(ptx):
    arguments = [floats(32), floats(32), np.zeros(32, np.float32), 10]
    ran = ptx.run(ptx.sample("kernels"), "vector_add", arguments, [Attach(Where.BRANCH)])

    # The branch skips the kernel's work if i >= n.
    assert {one.thread: one.address for one in ran.records} == {i: int(i >= 10) for i in range(32)}


def test_every_thread_is_reported_at_every_barrier(ptx):
    arguments = [floats(1024), floats(1024), np.zeros(1024, np.float32), 32]
    ran = ptx.run(ptx.sample("kernels"), "matmul", arguments, [Attach(Where.BARRIER)], block=(16, 16, 1))

    assert len(ran.records) == 2 * 2 * 256


FENCES = [
    "membar.cta",
    "membar.gl",
    "membar.sys",
    "fence.sc.cta",
    "fence.sc.cluster",
    "fence.sc.gpu",
    "fence.sc.sys",
    "fence.acq_rel.cta",
    "fence.acq_rel.cluster",
    "fence.acq_rel.gpu",
    "fence.acq_rel.sys",
    "fence.acquire.gpu",
    "fence.release.gpu",
    "fence.cta",
    "fence.gpu",
    "fence.acquire.sync_restrict::shared::cluster.cluster",
    "fence.release.sync_restrict::shared::cta.cluster",
    "fence.mbarrier_init.release.cluster",
    "fence.proxy.alias",
    "fence.proxy.async",
    "fence.proxy.async.global",
    "fence.proxy.async.shared::cta",
    "membar.proxy.alias",
    "fence.proxy.tensormap::generic.release.gpu",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
]
"""The forms of the PTX ISA manual without operands."""


@pytest.mark.parametrize("form", [*FENCES, "fence.proxy.tensormap::generic.acquire.sys [%rd1], 128"])
def test_every_form_of_a_fence_is_reported_in_the_threads_that_execute_it(ptx, form):
    text = f"""
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_out)
{{
.reg .pred %p<3>;
.reg .b32 %r<4>;
.reg .b64 %rd<4>;
ld.param.u64 %rd1, [k_out];
mov.u32 %r1, %tid.x;
mov.u32 %r2, 0;
setp.lt.u32 %p1, %r1, 5;
again:
{form};
@%p1 {form};
add.u32 %r2, %r2, 1;
setp.lt.u32 %p2, %r2, 3;
@%p2 bra again;
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r2;
ret;
}}
"""
    ran = ptx.run(text, "k", [np.zeros(40, np.uint32)], [Attach(Where.FENCE)], block=(40, 1, 1))

    assert ran.outputs[0].tolist() == [3] * 40
    every, some = ran.injection.sites
    assert {(one.where, one.operation, one.size) for one in (every, some)} == {(Where.FENCE, Operation.NONE, 0)}
    assert every.instruction == f"{form};"
    assert some.instruction.endswith(f"{form};")
    assert sorted(one.thread for one in ran.at(site=every.number)) == sorted(list(range(40)) * 3)
    assert sorted(one.thread for one in ran.at(site=some.number)) == sorted(list(range(5)) * 3)


def test_a_fence_within_a_carry_chain_is_reported_after_it(ptx):
    text = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_out)
{
.reg .b32 %r<9>;
.reg .b64 %rd<4>;
ld.param.u64 %rd1, [k_out];
mov.u32 %r1, %tid.x;
mov.u32 %r2, 0xffffffff;
add.cc.u32 %r3, %r1, %r2;
membar.gl;
addc.u32 %r4, 0, 0;
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r4;
ret;
}
"""
    ran = ptx.run(text, "k", [np.zeros(32, np.uint32)], [Attach(Where.FENCE)])

    assert ran.outputs[0].tolist() == [0] + [1] * 31
    assert sorted(one.thread for one in ran.records) == list(range(32))
    chain = ran.injection.code[ran.injection.code.index("add.cc") : ran.injection.code.index("addc")]
    assert chain == "add.cc.u32 %r3, %r1, %r2;\nmembar.gl;\n"


def test_instructions_that_synchronize_lanes_or_signal_are_reported_apart_from_barriers(ptx):
    text = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 k_out)
{
.reg .pred %p<3>;
.reg .b32 %r<9>;
.reg .b64 %rd<4>;
ld.param.u64 %rd1, [k_out];
mov.u32 %r1, %tid.x;
bar.sync 0;
membar.cta;
bar.warp.sync -1;
shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;
bar.arrive 1, 64;
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r2;
ret;
}
"""
    ran = ptx.run(text, "k", [np.zeros(32, np.uint32)], [Attach(Where.SYNC)])

    assert ran.outputs[0].tolist() == [lane ^ 1 for lane in range(32)]
    opcodes = {site.number: site.instruction.split()[0] for site in ran.injection.sites}
    assert sorted(opcodes.values()) == ["bar.arrive", "bar.warp.sync", "shfl.sync.bfly.b32"]
    for number in opcodes:
        assert sorted(one.thread for one in ran.at(site=number)) == list(range(32))


def test_instructions_that_are_not_fences_are_not_reported_as_one(ptx):
    ran = ptx.run(ptx.sample("kernels"), "matmul", [*[floats(256)] * 3, 16], [Attach(Where.FENCE)], block=(16, 16, 1))
    assert ran.records == []
    assert ran.injection.sites == ()


def test_atomics_are_reported_with_their_space(ptx):
    values = np.arange(64, dtype=np.uint32) * 7
    counts, total, whole = np.zeros(65, np.uint32), np.zeros(1, np.uint64), np.zeros(1, np.float32)
    atomics = Attach(Where.MEMORY, operations=frozenset({Operation.ATOMIC}))
    ran = ptx.run(ptx.sample("kernels"), "atomics", [counts, total, whole, values], [atomics], block=(64, 1, 1))

    at_counts, at_total, at_whole, _ = ran.addresses
    assert len(ran.at(space=SHARED, size=4)) == 64
    assert len(ran.at(address=at_total, size=8, space=GLOBAL)) == 64
    assert len(ran.at(address=at_whole, size=4)) == 64
    assert len(ran.at(address=at_counts + 256, size=4)) == 64
    np.testing.assert_array_equal(ran.outputs[0][:64], np.bincount(values % 64, minlength=64))


def test_copies_to_shared_memory_report_the_global_address(ptx):
    tiles = np.random.default_rng(5).random(4 * 128 * 3, dtype=np.float32)
    copies = Attach(Where.MEMORY, operations=frozenset({Operation.ASYNC_COPY}))
    ran = ptx.run(ptx.sample("async_copy"), "async_copy", [tiles, np.zeros_like(tiles), 3], [copies], block=(128, 1, 1))

    base = ran.addresses[0]
    assert {one.address for one in ran.records} == {base + 16 * i for i in range(3 * 128)}
    assert {(one.size, one.space) for one in ran.records} == {(16, GLOBAL)}
    swapped = tiles.reshape(3, 64, 2, 4)[:, :, ::-1]
    np.testing.assert_array_equal(ran.outputs[1], swapped.ravel())


def test_generic_and_named_addresses_are_reported(ptx):
    ran = ptx.run(ptx.sample("kernels"), "spaces", [floats(32), 3], [MEMORY], shared=128)

    generic = ran.at(space=int(Space.GENERIC))
    base = ran.addresses[0]
    assert sorted(one.address for one in generic) == sorted([base + 4 * i for i in range(32)] * 2)
    stored = {one.address for one in ran.at(space=GLOBAL, operation=STORE)}
    added = {one.address for one in ran.at(space=GLOBAL, operation=ATOMIC)}
    assert len(stored) == 1
    assert stored == added
    assert {one.size for one in ran.records} == {4}


@pytest.mark.thorough  # takes long, or repeats at a large size what others test
@pytest.mark.parametrize(
    ("kernel", "arguments", "block"),
    [
        ("reduce", [np.arange(70, dtype=np.int32), np.zeros(1, np.int32), 70], 96),
        ("jumps", [np.arange(32, dtype=np.int32) % 9, np.zeros(64, np.int32), 45], 32),
        ("early_returns", [np.arange(64, dtype=np.int32), np.zeros(64, np.int32), 60], 64),
        ("calls", [np.arange(32, dtype=np.int32), np.zeros(32, np.int32)], 32),
    ],
)
def test_results_are_the_same_with_programs_at_every_kind_of_place(ptx, kernel, arguments, block):
    text = ptx.sample("kernels")
    everywhere = [attach for attach, _ in ptx.everywhere(ptx.recorder())]
    plain = ptx.run(text, kernel, arguments, [], block=(block, 1, 1))
    traced = ptx.run(text, kernel, arguments, everywhere, block=(block, 1, 1))

    assert traced.records
    for with_it, without in zip(traced.outputs, plain.outputs, strict=True):
        np.testing.assert_array_equal(with_it, without)


def test_a_module_can_be_instrumented_twice(ptx):
    text = ptx.sample("kernels")
    once = ptx.run(text, "vector_add", [floats(32), floats(32), np.zeros(32, np.float32), 32], [MEMORY])
    twice = ptx.run(
        once.injection.code, "vector_add", [floats(32), floats(32), np.zeros(32, np.float32), 32], [Attach(Where.ENTRY)]
    )

    # Both write to the same place: three accesses and one entry in each thread.
    assert len(once.records) == 96
    assert len(twice.records) == 128
    np.testing.assert_array_equal(twice.outputs[2], once.outputs[2])


def test_sites_and_kernels_are_numbered_from_the_given_first_numbers(ptx):
    arguments = [floats(32), floats(32), np.zeros(32, np.float32), 32]
    ran = ptx.run(ptx.sample("kernels"), "vector_add", arguments, [MEMORY], first_site=500, first_kernel=40)

    mine = [site for site in ran.injection.sites if site.function == "vector_add"]
    assert {one.site for one in ran.records} == {site.number for site in mine}
    assert min(site.number for site in ran.injection.sites) == 500
    number = next(kernel.number for kernel in ran.injection.kernels if kernel.name == "vector_add")
    assert {one.kernel for one in ran.records} == {number}
    assert min(kernel.number for kernel in ran.injection.kernels) == 40


def test_triton_kernels_report_masked_accesses_only_if_the_mask_holds(ptx):
    n = 1000
    x, y = floats(1024), floats(1024, 2)
    arguments = [x, y, np.zeros(1024, np.float32), n, 0, 0]
    ran = ptx.run(ptx.sample("triton_add"), "add", arguments, [MEMORY], block=(128, 1, 1))

    assert len(ran.records) == 3 * n
    at_x, at_y, at_out = ran.addresses
    for base, operation in ((at_x, LOAD), (at_y, LOAD), (at_out, STORE)):
        found = {one.address for one in ran.at(operation=operation) if base <= one.address < base + 4096}
        assert found == {base + 4 * i for i in range(n)}
    np.testing.assert_array_equal(ran.outputs[2][:n], (x + y)[:n])


@pytest.mark.parametrize(
    ("read", "register", "expected"),
    [
        ("ld.param.b8", "%rs1", lambda base: base >> 8 & 0xFF),
        ("ld.param.s8", "%r8", lambda base: (base >> 8 & 0xFF) - (0x100 if base >> 8 & 0x80 else 0) & 0xFFFFFFFF),
        ("ld.param.b32", "%r8", lambda base: base >> 8 & 0xFFFFFFFF),
        ("ld.param.u16", "%rd2", lambda base: base >> 8 & 0xFFFF),
    ],
)
def test_reading_part_of_a_parameter_gives_what_a_load_would(ptx, read, register, expected):
    arguments = [floats(32), floats(32), np.zeros(32, np.float32), 32]
    bits = {"%rs": 16, "%r8": 32, "%rd": 64}[register[:3]]
    widened = f"mov.b64 %rd1, {register};" if bits == 64 else f"cvt.u64.u{bits} %rd1, {register};"
    lines = f"{read} {register}, [accel_record_param_0+1];\n{widened}"

    def partly(code):
        return code.replace("ld.param.b64 \t%rd1, [accel_record_param_0];", lines)

    stores = Attach(Where.MEMORY, operations=frozenset({Operation.STORE}))
    ran = ptx.run(ptx.sample("kernels"), "vector_add", arguments, [stores], change=partly)

    assert {one.thread: one.address for one in ran.records} == {
        i: expected(ran.addresses[2] + 4 * i) for i in range(32)
    }


def test_a_warp_group_matrix_product_is_the_same_with_a_program_at_every_access(ptx):
    n = 64
    a, b = ((np.arange(n * n).reshape(n, n) * by % 7 - 3).astype(np.float16) for by in (3, 5))
    arguments = [a, b, np.zeros((n, n), np.float32), n, 0, 0]
    text = ptx.sample("triton_matmul_sm90")
    plain = ptx.run(text, "matmul", arguments, [], block=(128, 1, 1), shared=1 << 15)
    traced = ptx.run(text, "matmul", arguments, [MEMORY], block=(128, 1, 1), shared=1 << 15)

    product = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(plain.outputs[2].reshape(n, n), product)
    np.testing.assert_array_equal(traced.outputs[2], plain.outputs[2])
    copies = [site.number for site in traced.injection.sites if site.operation is Operation.ASYNC_COPY]
    base = traced.addresses[0]
    addresses = [one.address for one in traced.records if one.site in copies]
    read = {address - base for address in addresses if base <= address < base + a.nbytes}
    assert read == set(range(0, a.nbytes, 16))
