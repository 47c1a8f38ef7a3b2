// SPDX-License-Identifier: GPL-2.0
/*
 * Two queues, like 2Q: a new chunk is on probation in the unused list, from which the first is evicted. It is moved to
 * the used list if it is accessed again after others came, or if its block was evicted not long ago. What is accessed
 * once, as by a scan, so never pushes out what is used again and again.
 *
 * A full used list would keep what was used long ago for ever, since chunks are evicted from it only while nobody is on
 * probation. One new chunk in ADMITTED therefore enters it at once, and in time pushes out the oldest.
 */
#include "gpu_policy.h"

#define CHUNKS 65536 /* 128 GiB */
#define BLOCKS 65536 /* hashes of blocks; two with the same hash share an entry */
#define APART 2 /* other chunks that must have come between two accesses for the second to count */
#define ADMITTED 32
#define REMEMBERED (capacity / 2) /* chunks that came since a block was last accessed, for it to be known */

u64 clock; /* chunks that have come */
u64 capacity; /* of them before the first had to go */

struct chunk_state {
	u64 came;
	u32 protected;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CHUNKS);
	__type(key, u32); /* chunk */
	__type(value, struct chunk_state);
} states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BLOCKS);
	__type(key, u32); /* hash of a block */
	__type(value, u64); /* when it was last in memory */
} ghosts SEC(".maps");

static __always_inline u64 *ghost_of(uvm_gpu_chunk_t *chunk)
{
	u32 key = (u32)(chunk->va_block->start >> 21) * 2654435761u >> 16;

	return bpf_map_lookup_elem(&ghosts, &key);
}

static __always_inline struct chunk_state *state_of(uvm_gpu_chunk_t *chunk)
{
	u32 key = chunk->address >> 21;

	return bpf_map_lookup_elem(&states, &key);
}

SEC("struct_ops/gpu_block_activate")
int BPF_PROG(queue_activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	struct chunk_state *state = state_of(chunk);
	u64 *ghost = ghost_of(chunk);

	if (!state || !ghost)
		return GPU_ACTION_DEFAULT;
	clock += 1;
	state->came = clock;
	state->protected = (*ghost && clock - *ghost <= REMEMBERED) || clock % ADMITTED == 0;
	*ghost = clock;
	bpf_gpu_request_reorder(decision,
				state->protected ? NV_GPU_PMM_DESTINATION_USED : NV_GPU_PMM_DESTINATION_UNUSED,
				NV_GPU_PMM_POSITION_TAIL);
	return GPU_ACTION_BYPASS;
}

SEC("struct_ops/gpu_block_access")
int BPF_PROG(queue_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	struct chunk_state *state = state_of(chunk);
	u64 *ghost = ghost_of(chunk);

	if (!state || !ghost)
		return GPU_ACTION_DEFAULT;
	*ghost = clock;
	if (!state->protected && clock - state->came < APART)
		return GPU_ACTION_BYPASS;
	state->protected = 1;
	bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_TAIL);
	return GPU_ACTION_BYPASS;
}

SEC("struct_ops/gpu_evict_prepare")
int BPF_PROG(queue_evict, uvm_pmm_gpu_t *pmm, struct list_head *used, struct list_head *unused)
{
	if (!capacity)
		capacity = clock;
	return GPU_ACTION_DEFAULT;
}

SEC(".struct_ops.link")
struct gpu_mem_ops two_queues = {
	.gpu_block_activate = (void *)queue_activate,
	.gpu_block_access = (void *)queue_access,
	.gpu_evict_prepare = (void *)queue_evict,
};
