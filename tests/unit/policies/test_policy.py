"""Policies are verified by the rules of the kernel: what they may read, write and pass on."""

from pathlib import Path

import pytest

from accel_magic.errors import ProbeError, ProgramError
from accel_magic.gpu.maps.map_access import frame
from accel_magic.gpu.program.settings import parse
from accel_magic.policies import policy
from accel_magic.policies.model_engine import ModelMemory
from tests.support.errors import raises

pytestmark = pytest.mark.component

ACCESS = """
#include "gpu_policy.h"
struct {{
	__uint(type, BPF_MAP_TYPE_{type});
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, u64);
}} seen SEC(".maps");

SEC("struct_ops/gpu_block_access")
int BPF_PROG(on_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{{
	u64 key = 1, value = 2;
	{body}
	return GPU_ACTION_DEFAULT;
}}

SEC(".struct_ops.link")
struct gpu_mem_ops tried = {{ .gpu_block_access = (void *)on_access }};
"""


def loaded(body, kind="HASH"):
    return policy.load(ACCESS.format(body=body, type=kind))


def values(body, pages=(0,), kind="HASH"):
    """The map `seen` after accesses to pages of one chunk each."""
    found = ModelMemory(loaded(body, kind), chunks=4, blocks=4)
    found.run([512 * page for page in (*pages, *pages)])
    (seen,) = [frame(content.spec, content.raw, 1) for content in found.maps() if content.spec.name == "seen"]
    return dict(zip(seen["key"].tolist(), seen["value"].tolist(), strict=True))


def test_members_can_be_read_by_co_re_macros():
    macro = "value = BPF_CORE_READ(chunk, va_block, managed_range, va_range.va_space, va_space_mm.mm, owner, tgid);"
    direct = "value = chunk->va_block->managed_range->va_range.va_space->va_space_mm.mm->owner->tgid;"
    update = "key = BPF_CORE_READ(chunk, va_block, start); bpf_map_update_elem(&seen, &key, &value, BPF_ANY);"
    pages = (0, 2)

    found = values(f"#include <bpf/bpf_core_read.h>\n{macro} {update}", pages)
    assert found == values(f"#include <bpf/bpf_core_read.h>\n{direct} {update}", pages)
    assert len(found) == 2
    assert all(found.values())


SET = Path(__file__).with_name("settings.bpf.c").read_text("utf-8")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [0, 5, 3, 0]),
        ({"constant": 65535, "variable": -2}, [0, 2**64 - 2, 65535, 0]),
        ({"numbers.1": 7, "names.bench": 8, "other": 1}, [7, 5, 3, 8]),
    ],
)
def test_constants_variables_and_entries_of_maps_can_be_set(settings, expected):
    model = ModelMemory(policy.load(SET, settings=settings), chunks=4, blocks=4)
    model.run([0])
    (seen,) = [frame(content.spec, content.raw, 1) for content in model.maps() if content.spec.name == "found"]
    assert [value % 2**64 for value in seen["value"].tolist()] == expected


@pytest.mark.parametrize(
    "settings", [{"constant": 65536}, {"constant": -40000}, {"numbers.1": 2**64}, {"names.a_name_of_16_char": 1}]
)
def test_settings_that_do_not_fit_are_typed_errors(settings):
    with raises("program.bad-setting", ProbeError):
        policy.load(SET, settings=settings)


@pytest.mark.parametrize("text", ["", "quota", "quota=", "=3", "quota=x", "a.b.c=1", "quota=1.5"])
def test_other_texts_are_no_settings(text):
    with raises("program.bad-setting", ProbeError):
        parse([text])


def test_more_than_three_values_are_printed():
    loaded('bpf_printk("%d %d %p %d %d", 1, 2, chunk, 4, 5); bpf_map_update_elem(&seen, &key, &value, 0);')


@pytest.mark.parametrize("name", policy.shipped())
def test_shipped_policies_are_accepted(name):
    assert policy.load(name).hooks


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("chunk->va_block = 0;", "write-to-object"),
        ("decision->request.attempted = 1;", "write-to-object"),
        ("__sync_fetch_and_add(&chunk->address, 1);", "write-to-object"),
        ("bpf_probe_read_kernel(chunk, 8, &key);", "wrong-argument"),
        ("bpf_gpu_request_reorder((void *)chunk, 1, 1);", "wrong-argument"),
        ("bpf_gpu_request_reorder((void *)&key, 1, 1);", "wrong-argument"),
        ("bpf_gpu_request_reorder((void *)decision + 8, 1, 1);", "wrong-argument"),
        ("bpf_gpu_request_reorder((void *)decision->root_chunk, 1, 1);", "wrong-argument"),
        ("value = *(u64 *)((void *)chunk - 8);", "out-of-bounds-object"),
        ("value = *(u64 *)((void *)chunk + 4096);", "out-of-bounds-object"),
        ("value = *(u64 *)((void *)chunk + (bpf_get_prandom_u32() & 8));", "out-of-bounds-object"),
        ("value = *(u32 *)&chunk->va_block;", "out-of-bounds-object"),
        ("value = bpf_get_prandom_u32() * 1ull << 40; value += (u64)chunk;", "pointer-arithmetic"),
        ("value = (u64)chunk + (1ull << 29);", "pointer-arithmetic"),
        (
            "volatile u64 kept[4] = {}; u32 at = 3; barrier_var(at); at = 2 % at; value = kept[at];",
            "pointer-arithmetic",
        ),
        ('asm volatile("%0 <<= 64" : "+r"(value));', "unknown-opcode"),
        ('asm volatile("goto +1; r1 = 2; r2 = 3" : : : "r1", "r2");', "unreachable-code"),
        ("value = ctx[3];", "out-of-bounds-context"),
        ("value = *(u32 *)ctx;", "out-of-bounds-context"),
        ("ctx[0] = 0;", "write-to-context"),
        ("u64 *found = bpf_map_lookup_elem(&seen, &key); *found = 1;", "null-not-checked"),
        ("u64 *found = (void *)key; bpf_map_update_elem(&seen, chunk, &value, 0);", "wrong-argument"),
        ("return (u64)chunk;", "pointer-leak"),
        ("for (;;) if (bpf_get_prandom_u32() == 7) break;", "unbounded-loop"),
        ("value = ((u64 (*)(void))503)();", "unknown-helper"),
    ],
)
def test_what_the_kernel_rejects_is_rejected_with_its_rule(body, rule):
    with raises(f"gpu.verifier.{rule}", ProgramError):
        loaded(f"{body} bpf_map_update_elem(&seen, &key, &value, 0);")


def test_members_of_objects_are_read_through_pointers():
    body = """
	value = chunk->va_block->managed_range->va_range.va_space->va_space_mm.mm->owner->tgid;
	bpf_map_update_elem(&seen, &key, &value, 0);
	key = 2; value = chunk->va_block->end;
	bpf_map_update_elem(&seen, &key, &value, 0);
	key = 3; value = decision->root_chunk->list_state + 10 * decision->observed.source;
	bpf_map_update_elem(&seen, &key, &value, 0);
"""
    assert values(body, pages=(3,)) == {1: 1000, 2: (4 << 21) - 1, 3: 11}


def test_null_pointers_of_the_driver_read_zeros():
    body = """
	value = (u64)pmm->root_chunks.va_block_unused.next == (u64)&pmm->root_chunks.va_block_unused;
	bpf_map_update_elem(&seen, &key, &value, 0);
	uvm_va_block_t *none = 0;
	bpf_probe_read_kernel(&none, 8, &chunk->va_block->chunk->va_block->resident);
	key = 2; value = (u64)bpf_probe_read_kernel(&key, 8, none);
	key = 2; bpf_map_update_elem(&seen, &key, &value, 0);
"""
    found = values(body)
    assert found[1] == 1
    assert found[2] == 2**64 - 14


def test_addresses_of_chunks_are_keys_and_values():
    body = """
	key = (u64)chunk; value = (u64)chunk->va_block;
	bpf_map_update_elem(&seen, &key, &value, 0);
"""
    assert len(values(body, pages=(0, 1, 2))) == 3


@pytest.mark.parametrize("kind", ["HASH", "PERCPU_HASH"])
def test_maps_for_each_processor_have_one_value(kind):
    body = """
	u64 *found = bpf_map_lookup_elem(&seen, &key);
	if (found) *found += 1; else bpf_map_update_elem(&seen, &key, &value, 0);
"""
    assert values(body, pages=(0, 0, 0), kind=kind) == {1: 2 + 4}


def test_a_probe_of_the_drivers_function_knows_the_block_of_a_fault():
    text = """
#include "gpu_policy.h"
u64 start, faults;

SEC("kprobe/uvm_perf_prefetch_get_hint_va_block")
int BPF_KPROBE(on_hint, uvm_va_block_t *block)
{
	bpf_probe_read_kernel(&start, 8, &block->start);
	faults += 1;
	return 0;
}

SEC("struct_ops/gpu_page_prefetch")
int BPF_PROG(prefetch, uvm_page_index_t page, void *tree, void *most, uvm_bpf_prefetch_decision_t *decision)
{
	bpf_gpu_set_prefetch_region(decision, 0, start >> 21);
	return GPU_ACTION_BYPASS;
}

SEC(".struct_ops.link")
struct gpu_mem_ops probing = { .gpu_page_prefetch = (void *)prefetch };
"""
    model = ModelMemory(policy.load(text), chunks=8, blocks=8)
    told = model.run([512 * 5, 512 * 3])
    assert told["pages_in"].tolist() == [5, 3]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('int nothing;\nSEC("struct_ops/gpu_block_access") int f(void *c) { return 0; }', "no struct gpu_mem_ops"),
        (
            (
                "struct other_ops { int (*on_bind)(void *); };\n"
                'SEC("struct_ops/on_bind") int f(void *c) { return 0; }\n'
                'SEC(".struct_ops.link") struct other_ops s = { .on_bind = (void *)f };'
            ),
            "struct other_ops",
        ),
        (
            (
                "struct uvm_gpu_ext { int (*uvm_pmm_chunk_used)(void *); };\n"
                'SEC("struct_ops/uvm_pmm_chunk_used") int f(void *c) { return 0; }\n'
                'SEC(".struct_ops.link") struct uvm_gpu_ext s = { .uvm_pmm_chunk_used = (void *)f };'
            ),
            "first interface",
        ),
        ('SEC("tracepoint/syscalls/sys_enter_read") int f(void *c) { return 0; }', "no struct gpu_mem_ops"),
    ],
)
def test_other_programs_are_refused_by_name(text, why):
    with raises("policy.other-interface", ProgramError) as caught:
        policy.load(f'#include "gpu_policy.h"\n{text}\n')
    assert why in caught.value.why


def test_what_does_not_compile_or_exist_is_a_typed_error(tmp_path):
    with raises("program.unreadable", ProgramError):
        policy.load(tmp_path / "absent.bpf.o")
    with pytest.raises(ProgramError, match="expected parameter declarator"):
        policy.load("#include <vmlinux.h>\nint broken(\n")
