// SPDX-License-Identifier: Apache-2.0
// When each block began and ended, and on which multiprocessor.
#include "accel_gpu.h"

#define BLOCKS (1 << 18)

struct block {
	u64 warps; // that have begun
	u64 threads; // that have left
	u64 start;
};

struct span {
	u64 start; // globaltimer, ns
	u64 end;
	u64 block; // row-major over the grid
	u32 kernel;
	u32 sm;
};

GPU_MAP(blocks, BPF_MAP_TYPE_GPU_ARRAY, u32, struct block, BLOCKS);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
	__type(value, struct span);
} spans SEC(".maps");

u64 lost; // warps of blocks past the end of the map

SEC("gpu.warp/entry")
int begin(struct gpu_ctx *ctx)
{
	u32 key = gpu_block_number();
	struct block *block = bpf_map_lookup_elem(&blocks, &key);

	if (!block)
		__sync_fetch_and_add(&lost, 1);
	else if (__sync_fetch_and_add(&block->warps, 1) == 0)
		__sync_lock_test_and_set(&block->start, gpu_globaltimer());
	return 0;
}

SEC("gpu.warp/exit")
int end(struct gpu_ctx *ctx)
{
	u32 key = gpu_block_number();
	struct block *block = bpf_map_lookup_elem(&blocks, &key);
	u64 leaving = __builtin_popcount(ctx->active);
	struct span *span;
	u64 x, y, z;

	if (!block)
		return 0;
	gpu_block_dim(&x, &y, &z);
	if (__sync_fetch_and_add(&block->threads, leaving) + leaving != x * y * z)
		return 0;
	// The block's last: make it ready for the next launch.
	__sync_lock_test_and_set(&block->threads, 0);
	__sync_lock_test_and_set(&block->warps, 0);
	span = bpf_ringbuf_reserve(&spans, sizeof(*span), 0);
	if (!span)
		return 0;
	span->start = block->start;
	span->end = gpu_globaltimer();
	span->block = key;
	span->kernel = ctx->kernel;
	span->sm = gpu_sm_id();
	bpf_ringbuf_submit(span, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
