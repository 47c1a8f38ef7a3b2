// SPDX-License-Identifier: Apache-2.0
// Branches whose warps split: some lanes go one way, some the other.
#include "accel_gpu.h"

#define SITES 4096

struct branch {
	u64 full; // full warps of which all lanes took it
	u64 rest; // other warps that reached it
	u64 split;
	u64 idle;  // lanes of the rest that did not reach it
	u64 taken; // lanes of the rest that took it
	u64 width; // lanes of a full warp
};

GPU_MAP(branches, BPF_MAP_TYPE_GPU_ARRAY, u32, struct branch, SITES * GPU_STRIPES);

u64 lost; // warps at places past the end of the map

SEC("gpu/branch")
int decide(struct gpu_ctx *ctx)
{
	// At a branch the address is 1 in the lanes that take it. All lanes vote, the leader counts.
	u32 taken = gpu_ballot(ctx->address), active = ctx->active;
	u32 key = gpu_stripe(ctx->site), idle = gpu_idle(active);
	struct branch *branch;
	u64 *counter;

	if (!gpu_is_leader())
		return 0;
	branch = bpf_map_lookup_elem(&branches, &key);
	if (!branch) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	branch->width = gpu_warp_size();
	// One counter in most warps. Without nested conditions, each of which costs a processor more than an addition.
	counter = taken == active && !idle ? &branch->full : &branch->rest;
	__sync_fetch_and_add(counter, 1);
	if (taken && taken != active)
		__sync_fetch_and_add(&branch->split, 1);
	if (idle)
		__sync_fetch_and_add(&branch->idle, idle);
	if (taken && counter == &branch->rest)
		__sync_fetch_and_add(&branch->taken, __builtin_popcount(taken));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
