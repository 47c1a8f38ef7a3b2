"""Policies at random: C with statements that are mostly right, and objects with an instruction changed."""

import random

from accel_magic.gpu.program import bpf_elf, objects

HEAD = """
#include "gpu_policy.h"
struct pair { u64 first, second; };
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, u64);
	__type(value, struct pair);
} pairs SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8);
	__type(key, u32);
	__type(value, u64);
} numbers SEC(".maps");
volatile const u64 constant = 7;
u64 total;

"""
CHUNK_HOOKS = ("gpu_block_activate", "gpu_block_access")
CHUNK_ARGUMENTS = "uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision"
PREFETCH_ARGUMENTS = (
    "uvm_page_index_t page, uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *most, "
    "uvm_bpf_prefetch_decision_t *decision"
)
CHUNK_READS = (
    *("chunk->address", "chunk->state", "(u64)chunk", "(u64)chunk->va_block", "chunk->va_block->start"),
    *("chunk->va_block->end", "chunk->va_block->resident.bitmap[3]", "(u64)chunk->va_block->chunk"),
    "chunk->va_block->managed_range->va_range.va_space->va_space_mm.mm->owner->tgid",
    *("(u64)pmm->root_chunks.va_block_used.next", "decision->observed.generation", "decision->root_chunk->list_state"),
)
PREFETCH_READS = ("page", "most->first", "most->outer", "tree->leaf_count", "tree->pages.bitmap[7]", "decision->first")
# Loads and stores, arithmetic with numbers and registers, jumps.
OPCODES = (0x61, 0x79, 0x63, 0x7B, 0x7A, 0x07, 0x0F, 0x17, 0x27, 0x57, 0x67, 0xB7, 0xBF, 0x15, 0x1D, 0x55, 0xA5, 0x05)
OPERATORS = ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")


class Writer:
    """Writes the body of one hook; a few statements in a hundred break a rule."""

    def __init__(self, chosen: random.Random, reads, ask, bad_share):
        self.chosen, self.reads, self.ask, self.bad = chosen, reads, ask, bad_share

    def wrong(self):
        return self.chosen.random() < self.bad

    def name(self):
        return self.chosen.choice("abc")

    def value(self):
        pick = self.chosen.random()
        if pick < 0.35:
            return self.name()
        if pick < 0.6:
            return f"({self.chosen.choice(self.reads)})"
        if pick < 0.7:
            return self.chosen.choice(("constant", "total", "bpf_ktime_get_ns()", "bpf_get_prandom_u32()"))
        return str(self.chosen.choice((0, 1, 2, 7, 63, 255, 4096, -1, 1 << 33)))

    def expression(self):
        operator = self.chosen.choice(OPERATORS)
        right = self.value()
        if operator in ("<<", ">>"):
            right = f"({right} & 63)"
        return f"(u64){self.value()} {operator} (u64){right}"

    def condition(self):
        return f"(u64){self.value()} {self.chosen.choice(('<', '>', '==', '!=', '<=', '>='))} (u64){self.value()}"

    def statement(self, depth):  # noqa: PLR0911 - one for each kind
        kind = self.chosen.randrange(12)
        if kind < 3:
            return f"{self.name()} = {self.expression()};"
        if kind == 3 and depth:
            return f"if ({self.condition()}) {{ {self.block(depth - 1)} }}"
        if kind == 4 and depth:
            count = self.chosen.choice((2, 3, 8))
            end = "a" if self.wrong() else str(count)
            return f"for (u32 at{depth} = 0; at{depth} < {end}; at{depth}++) {{ {self.block(depth - 1)} }}"
        if kind in (5, 6):
            checked = "" if self.wrong() else "if (pair) "
            member = self.chosen.choice(("first", "second")) if not self.wrong() else "second + 1[&pair->second]"
            return (
                f"{{ u64 key = {self.value()}; struct pair *pair = bpf_map_lookup_elem(&pairs, &key); "
                f"{checked}{self.name()} += pair->{member}; }}"
            )
        if kind == 7:
            initial = "" if self.wrong() else " = { b, 1 }"
            return (
                f"{{ u64 key = {self.value()}; struct pair pair{initial}; "
                "bpf_map_update_elem(&pairs, &key, &pair, BPF_ANY); }"
            )
        if kind == 8:
            mask = 15 if self.wrong() else 7
            return f"{{ u64 kept[8] = {{}}; kept[{self.name()} & {mask}] = b; {self.name()} += kept[c & 7]; }}"
        if kind == 9:
            key = "(u32)a" if self.wrong() else "(u32)a & 7"
            return (
                f"{{ u32 key = {key}; u64 *number = bpf_map_lookup_elem(&numbers, &key); "
                f"if (number) {{ *number += {self.name()}; total += *number; }} }}"
            )
        if kind == 10:
            where = "chunk" if "chunk->address" in self.reads else "most"
            if self.wrong():
                return self.chosen.choice((f"*(u64 *){where} = 1;", "return (u64)decision;"))
            return f"bpf_probe_read_kernel(&{self.name()}, 8, {where});"
        return self.ask.format(self.value(), self.value())

    def block(self, depth):
        return " ".join(self.statement(depth) for _ in range(self.chosen.randint(1, 4)))

    def body(self):
        lines = "\n\t".join(self.statement(2) for _ in range(self.chosen.randint(2, 8)))
        return f"{{\n\tu64 a = 1, b = 2, c = 3;\n\n\t{lines}\n\ttotal += a + b + c;\n\treturn a & 1;\n}}\n"


def program(seed, bad_share=0.03):
    """C of a policy, the same for the same seed."""
    chosen = random.Random(seed)
    if chosen.random() < 0.7:
        hook, arguments, reads = chosen.choice(CHUNK_HOOKS), CHUNK_ARGUMENTS, CHUNK_READS
        ask = "bpf_gpu_request_reorder(decision, {}, {});"
    else:
        hook, arguments, reads = "gpu_page_prefetch", PREFETCH_ARGUMENTS, PREFETCH_READS
        ask = "bpf_gpu_set_prefetch_region(decision, {}, {});"
    body = Writer(chosen, reads, ask, bad_share).body()
    return (
        f'{HEAD}SEC("struct_ops/{hook}")\nint BPF_PROG(generated, {arguments})\n{body}\n'
        f'SEC(".struct_ops.link")\nstruct gpu_mem_ops policy = {{ .{hook} = (void *)generated }};\n'
    )


def changed(data, seed):
    """An object with one field of one instruction of a hook changed; none that refers to a member or a map."""
    chosen = random.Random(seed)
    file = bpf_elf.read_elf(data, "changed")
    program = chosen.choice(
        [one for one in objects.load_object(data).programs if one.section.startswith("struct_ops/")]
    )
    (function,) = program.functions
    section = file.sections[file.named(program.section)]
    fixed = {slot for slot, _ in function.kernel_fields}
    fixed |= {slot for slot, one in enumerate(function.code) if one is None or one.reference}
    at = section.start + 8 * chosen.choice([slot for slot in range(len(function.code)) if slot not in fixed])
    result = bytearray(data)
    where = chosen.choice((0, 1, 1, 1, 2, 2, 4, 4, 4))  # operation, registers, offset, number
    if where == 0:
        result[at] = chosen.choice(OPCODES)
    elif where == 1:
        result[at + 1] = (chosen.randrange(11) << 4) | chosen.randrange(11)
    else:
        result[at + where] = chosen.choice((0, 1, 8, 0xFF, chosen.randrange(256)))
    return bytes(result)
