// SPDX-License-Identifier: Apache-2.0
// Time in device functions: how often each was called, and for how many clock cycles, all threads together.
#include "accel_gpu.h"

#define SITES 4096
#define DEPTH 8 // calls within calls that are timed

struct stack {
	u64 depth;
	u64 started[DEPTH];
};

struct calls {
	u64 calls;
	u64 cycles;
};

GPU_MAP(stacks, BPF_MAP_TYPE_PER_THREAD_ARRAY, u32, struct stack, 1);
GPU_MAP(returns, BPF_MAP_TYPE_GPU_ARRAY, u32, struct calls, SITES); // by the place of the return

u64 lost; // calls that were not timed: too deep, or at places past the end of the map

SEC("gpu/function/*")
int begin(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct stack *mine = bpf_map_lookup_elem(&stacks, &key);
	u64 depth;

	if (!mine)
		return 0;
	depth = mine->depth;
	mine->depth = depth + 1;
	if (depth < DEPTH)
		mine->started[depth] = gpu_clock();
	else
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

SEC("gpu/function_exit/*")
int end(struct gpu_ctx *ctx)
{
	u64 now = gpu_clock();
	u32 site = ctx->site, key = 0;
	struct stack *mine = bpf_map_lookup_elem(&stacks, &key);
	struct calls *calls = bpf_map_lookup_elem(&returns, &site);
	u64 depth;

	if (!mine)
		return 0;
	depth = mine->depth - 1;
	mine->depth = depth;
	if (depth >= DEPTH)
		return 0;
	if (!calls) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	__sync_fetch_and_add(&calls->calls, 1);
	__sync_fetch_and_add(&calls->cycles, now - mine->started[depth]);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
