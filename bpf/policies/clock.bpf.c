// SPDX-License-Identifier: GPL-2.0
/*
 * Second chance: a chunk stays where it is when it is accessed, and goes to the tail once the hand comes to it. The
 * interface cannot move a chunk when another is accessed, so the hand moves with the chunk's own next access: one that
 * was accessed since it was activated is moved by its second access, and then begins anew.
 */
#include "gpu_policy.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64); /* chunk */
	__type(value, u32); /* accesses since it was moved */
} referenced SEC(".maps");

SEC("struct_ops/gpu_block_activate")
int BPF_PROG(clock_activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	u64 key = (u64)chunk;
	u32 none = 0;

	bpf_map_update_elem(&referenced, &key, &none, BPF_ANY);
	return GPU_ACTION_DEFAULT;
}

SEC("struct_ops/gpu_block_access")
int BPF_PROG(clock_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	u64 key = (u64)chunk;
	u32 *accesses = bpf_map_lookup_elem(&referenced, &key);

	if (!accesses)
		return GPU_ACTION_BYPASS;
	*accesses += 1;
	if (*accesses < 2)
		return GPU_ACTION_BYPASS;
	*accesses = 0;
	bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_TAIL);
	return GPU_ACTION_BYPASS;
}

SEC(".struct_ops.link")
struct gpu_mem_ops second_chance = {
	.gpu_block_activate = (void *)clock_activate,
	.gpu_block_access = (void *)clock_access,
};
