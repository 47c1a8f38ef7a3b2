// SPDX-License-Identifier: Apache-2.0
// When the first warp of each launch began, to set beside the moment at which the host asked for it.
#include "accel_gpu.h"

#define LAUNCHES 16384

struct first {
	u64 claimed; // the launch's number and one, set by its first warp
	u64 time;    // globaltimer then, ns
	u64 kernel;
};

GPU_MAP(launches, BPF_MAP_TYPE_GPU_ARRAY, u32, struct first, LAUNCHES);

u64 lost; // warps of launches whose entry an earlier one has

SEC("gpu.warp/entry")
int begin(struct gpu_ctx *ctx)
{
	u64 mine = ctx->launch + 1, claimed;
	// The device counts launches from before the trace on, too.
	u32 key = ctx->launch % LAUNCHES;
	struct first *first = bpf_map_lookup_elem(&launches, &key);

	if (!first)
		return 0;
	claimed = first->claimed;
	if (!claimed)
		claimed = __sync_val_compare_and_swap(&first->claimed, 0, mine);
	if (!claimed) {
		__sync_lock_test_and_set(&first->time, gpu_globaltimer());
		__sync_lock_test_and_set(&first->kernel, ctx->kernel);
	} else if (claimed != mine) {
		__sync_fetch_and_add(&lost, 1);
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
