// SPDX-License-Identifier: Apache-2.0
// When the first warp of each launch began, to set beside the moment at which the host asked for it.
#include "accel_gpu.h"

#define LAUNCHES 16384

struct first {
	u64 warps; // that have begun
	u64 time;  // globaltimer of the first, ns
	u64 launch;
	u64 kernel;
};

GPU_MAP(launches, BPF_MAP_TYPE_GPU_ARRAY, u32, struct first, LAUNCHES);

u64 lost; // warps of launches past the end of the map

SEC("gpu.warp/entry")
int begin(struct gpu_ctx *ctx)
{
	u64 launch = ctx->launch;
	u32 key = launch < LAUNCHES ? launch : LAUNCHES;
	struct first *first = bpf_map_lookup_elem(&launches, &key);

	if (!first) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	if (__sync_fetch_and_add(&first->warps, 1) == 0) {
		__sync_lock_test_and_set(&first->time, gpu_globaltimer());
		__sync_lock_test_and_set(&first->launch, launch);
		__sync_lock_test_and_set(&first->kernel, ctx->kernel);
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
