// SPDX-License-Identifier: Apache-2.0
// Memory accesses by place in the code: how many lanes, and how many sectors of memory their addresses touch.
#include "accel_gpu.h"

#define SITES 4096
#define SECTOR 32 // bytes that memory moves at once

struct access {
	u64 requests; // warps that came by
	u64 lanes;
	u64 sectors;
};

GPU_MAP(accesses, BPF_MAP_TYPE_GPU_ARRAY, u32, struct access, SITES);

u64 lost; // requests of places past the end of the map

SEC("gpu/memory")
int touch(struct gpu_ctx *ctx)
{
	// All lanes take part: the leader counts for the warp.
	u64 sectors = gpu_distinct(ctx->address / SECTOR);
	u32 site = ctx->site;
	struct access *access;

	if (!gpu_is_leader())
		return 0;
	// A lane that accesses more than a sector touches the next ones too.
	if (ctx->size > SECTOR)
		sectors *= ctx->size / SECTOR;
	access = bpf_map_lookup_elem(&accesses, &site);
	if (!access) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	__sync_fetch_and_add(&access->requests, 1);
	__sync_fetch_and_add(&access->lanes, __builtin_popcount(ctx->active));
	__sync_fetch_and_add(&access->sectors, sectors);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
