// SPDX-License-Identifier: GPL-2.0
/* A quota for each process: chunks of one that has more are evicted first. */
#include "gpu_policy.h"

volatile const u32 quota = 16; /* chunks of a process that stay */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, u32); /* process */
	__type(value, u32); /* its chunks */
} chunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64); /* chunk */
	__type(value, u32); /* the process that had it last */
} owners SEC(".maps");

static __always_inline u32 process_of(uvm_gpu_chunk_t *chunk)
{
	return chunk->va_block->managed_range->va_range.va_space->va_space_mm.mm->owner->tgid;
}

SEC("struct_ops/gpu_block_activate")
int BPF_PROG(quota_activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	u64 key = (u64)chunk;
	u32 process = process_of(chunk), one = 1, *before = bpf_map_lookup_elem(&owners, &key), *count;

	if (before) {
		u32 earlier = *before;

		count = bpf_map_lookup_elem(&chunks, &earlier);
		if (count && *count)
			*count -= 1;
	}
	bpf_map_update_elem(&owners, &key, &process, BPF_ANY);
	count = bpf_map_lookup_elem(&chunks, &process);
	if (count)
		*count += 1;
	else
		bpf_map_update_elem(&chunks, &process, &one, BPF_ANY);
	if (count && *count > quota)
		bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_HEAD);
	return GPU_ACTION_DEFAULT;
}

SEC("struct_ops/gpu_block_access")
int BPF_PROG(quota_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	u32 process = process_of(chunk), *count = bpf_map_lookup_elem(&chunks, &process);

	if (count && *count > quota)
		return GPU_ACTION_BYPASS;
	return GPU_ACTION_DEFAULT;
}

SEC(".struct_ops.link")
struct gpu_mem_ops quota_of_processes = {
	.gpu_block_activate = (void *)quota_activate,
	.gpu_block_access = (void *)quota_access,
};
