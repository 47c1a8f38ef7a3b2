// SPDX-License-Identifier: Apache-2.0
// How many warps and threads ran each kernel.
#include "accel_gpu.h"

#define KERNELS 256

struct count {
	u64 warps;
	u64 idle;  // lanes of these warps without a thread
	u64 width; // lanes of a full warp
};

GPU_MAP(kernels, BPF_MAP_TYPE_GPU_ARRAY, u32, struct count, KERNELS * GPU_STRIPES);

u64 lost; // warps of kernels past the end of the map

SEC("gpu.warp/entry")
int begin(struct gpu_ctx *ctx)
{
	u32 key = gpu_stripe(ctx->kernel), idle = gpu_idle(ctx->active);
	struct count *count = bpf_map_lookup_elem(&kernels, &key);

	if (!count) {
		__sync_fetch_and_add(&lost, 1);
	} else {
		count->width = gpu_warp_size();
		__sync_fetch_and_add(&count->warps, 1);
		if (idle)
			__sync_fetch_and_add(&count->idle, idle);
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
