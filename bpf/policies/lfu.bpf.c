// SPDX-License-Identifier: GPL-2.0
/*
 * About the least frequently used: a new block goes to the head, to be evicted first. It leaves the head when it is
 * accessed for the second time. Counts are kept by block, so a block that comes back is known.
 */
#include "gpu_policy.h"

#define FREQUENT 4 /* accesses, of this or earlier stays, after which a block that comes back is put at the tail */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64); /* block */
	__type(value, u32); /* accesses */
} frequency SEC(".maps");

static __always_inline u32 counted(u64 block)
{
	u32 one = 1, *count = bpf_map_lookup_elem(&frequency, &block);

	if (!count) {
		bpf_map_update_elem(&frequency, &block, &one, BPF_ANY);
		return one;
	}
	*count += 1;
	return *count;
}

SEC("struct_ops/gpu_block_activate")
int BPF_PROG(lfu_activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	bool known = counted((u64)chunk->va_block) > FREQUENT;

	bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED,
				known ? NV_GPU_PMM_POSITION_TAIL : NV_GPU_PMM_POSITION_HEAD);
	return GPU_ACTION_BYPASS;
}

SEC("struct_ops/gpu_block_access")
int BPF_PROG(lfu_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	counted((u64)chunk->va_block);
	bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_TAIL);
	return GPU_ACTION_BYPASS;
}

SEC(".struct_ops.link")
struct gpu_mem_ops lfu = {
	.gpu_block_activate = (void *)lfu_activate,
	.gpu_block_access = (void *)lfu_access,
};
