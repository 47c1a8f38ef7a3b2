// SPDX-License-Identifier: Apache-2.0
// Work per thread: how often each thread ran a kernel, and for how many clock cycles.
#include "accel_gpu.h"

#define KERNELS 8

struct work {
	u64 started; // clock, while the thread is inside
	u64 cycles;
	u64 runs;
};

GPU_MAP(threads, BPF_MAP_TYPE_PER_THREAD_ARRAY, u32, struct work, KERNELS);

u64 lost; // entries and exits of kernels past the end of the map

SEC("gpu/entry")
int begin(struct gpu_ctx *ctx)
{
	u32 kernel = ctx->kernel;
	struct work *mine = bpf_map_lookup_elem(&threads, &kernel);

	if (mine)
		mine->started = gpu_clock();
	else if (kernel >= KERNELS)
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

SEC("gpu/exit")
int end(struct gpu_ctx *ctx)
{
	u32 kernel = ctx->kernel;
	struct work *mine = bpf_map_lookup_elem(&threads, &kernel);

	if (mine) {
		mine->cycles += gpu_clock() - mine->started;
		mine->runs += 1;
	} else if (kernel >= KERNELS) {
		__sync_fetch_and_add(&lost, 1);
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
