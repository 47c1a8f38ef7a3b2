// SPDX-License-Identifier: Apache-2.0
// Memory accesses by place in the code: how many lanes, and how many sectors of memory their addresses touch; in shared
// memory, how many passes its banks need.
#include "accel_gpu.h"

#define SITES 4096
#define SECTOR 32 // bytes that memory moves at once

struct access {
	u64 requests; // warps that came by
	u64 idle;  // lanes of these warps that did not take part
	u64 width; // lanes of a full warp
	u64 sectors;
	u64 passes;
	u64 fewest; // passes that would do
};

GPU_MAP(accesses, BPF_MAP_TYPE_GPU_ARRAY, u32, struct access, SITES * GPU_STRIPES);

u64 lost; // requests of places past the end of the map

static struct access *counted(struct gpu_ctx *ctx)
{
	u32 key = gpu_stripe(ctx->site), idle = gpu_idle(ctx->active);
	struct access *access = bpf_map_lookup_elem(&accesses, &key);

	if (!access) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	access->width = gpu_warp_size();
	__sync_fetch_and_add(&access->requests, 1);
	if (idle)
		__sync_fetch_and_add(&access->idle, idle);
	return access;
}

// Parts of a warp that are served one after the other in shared memory: lanes of 8 bytes fill all banks with half a
// warp, those of 16 bytes with a quarter. Parts without a lane are left out.
static u32 parts(u32 active, u32 size)
{
	u32 any = active | active >> 4, quarters, halves;

	any |= any >> 2;
	quarters = (any | any >> 1) & 0x01010101;
	halves = (quarters | quarters >> 8) & 0x00010001;
	return size < 8 ? 1 : __builtin_popcount(size == 8 ? halves : quarters);
}

SEC("gpu/unshared")
int touch(struct gpu_ctx *ctx)
{
	// All lanes take part: the leader counts for the warp.
	u64 sectors = gpu_distinct(ctx->address / SECTOR);
	struct access *access;

	if (!gpu_is_leader())
		return 0;
	// A copy by a tensor map: the address is the map's, those of the elements are not known.
	if (!ctx->size)
		sectors = 0;
	// A lane that accesses more than a sector touches the next ones too.
	if (ctx->size > SECTOR)
		sectors *= ctx->size / SECTOR;
	access = counted(ctx);
	if (access)
		__sync_fetch_and_add(&access->sectors, sectors);
	return 0;
}

SEC("gpu/shared")
int ask_banks(struct gpu_ctx *ctx)
{
	u64 passes = gpu_bank_passes(ctx->address, ctx->size);
	struct access *access;

	if (!gpu_is_leader())
		return 0;
	access = counted(ctx);
	if (access) {
		__sync_fetch_and_add(&access->passes, passes);
		__sync_fetch_and_add(&access->fewest, parts(ctx->active, ctx->size));
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
