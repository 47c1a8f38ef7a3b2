// SPDX-License-Identifier: GPL-2.0
/*
 * What the device knows, the driver decides: blocks that are in `hot` stay as long as others can go. A program in the
 * GPU's kernels counts accesses, which GPUs without access counters do not report; its counts fill the map
 * (`--fill hot=counts`).
 */
#include "gpu_policy.h"

volatile const u64 least = 1; /* accesses */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64); /* where a block starts */
	__type(value, u64); /* how often the device accesses it */
} hot SEC(".maps");

static __always_inline int placed(uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	u64 start = chunk->va_block->start, *accesses = bpf_map_lookup_elem(&hot, &start);
	bool stays = accesses && *accesses >= least;

	bpf_gpu_request_reorder(decision, stays ? NV_GPU_PMM_DESTINATION_USED : NV_GPU_PMM_DESTINATION_UNUSED,
				NV_GPU_PMM_POSITION_TAIL);
	return GPU_ACTION_BYPASS;
}

SEC("struct_ops/gpu_block_activate")
int BPF_PROG(hot_activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	return placed(chunk, decision);
}

SEC("struct_ops/gpu_block_access")
int BPF_PROG(hot_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	return placed(chunk, decision);
}

SEC(".struct_ops.link")
struct gpu_mem_ops hot_blocks = {
	.gpu_block_activate = (void *)hot_activate,
	.gpu_block_access = (void *)hot_access,
};
