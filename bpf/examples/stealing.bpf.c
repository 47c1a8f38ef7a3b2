// SPDX-License-Identifier: Apache-2.0
/* Workers of the simulated device steal blocks from each other, but only in the first microseconds of a launch.
 *
 *   %%gputrace bpf/examples/stealing.bpf.c --device cpu -o t
 *
 * Each worker runs a fixed share of the grid. One that has finished its share takes a block from the worker with most
 * blocks left, as long as the launch has not run for BUDGET_NS. Maps: `answers`, one record for each question; `workers`,
 * what each worker ran and when it ended its last block.
 */
#include "accel_gpu.h"

#define BUDGET_NS 2000
#define WORKERS 128

struct worker {
	u64 blocks;
	u64 stolen;
	u64 end_ns; // since the launch's first block began
};

struct answer {
	u64 after_ns; // since the launch's first block began
	u32 worker;
	u32 victim;
	u32 victim_left;
	u32 left;
	u32 steals;
};

GPU_MAP(workers, BPF_MAP_TYPE_GPU_ARRAY, u32, struct worker, WORKERS);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
	__type(value, struct answer);
} answers SEC(".maps");

u64 launch; // the current one, and when its first block began
u64 start_ns;

SEC("gpu/block_enter")
int enter(struct gpu_block_ctx *ctx)
{
	if (ctx->launch != launch) {
		launch = ctx->launch;
		start_ns = ctx->time_ns;
	}
	return 0;
}

SEC("gpu/block_exit")
int leave(struct gpu_block_ctx *ctx)
{
	u32 key = ctx->worker;
	struct worker *worker = bpf_map_lookup_elem(&workers, &key);

	if (!worker)
		return 0;
	worker->blocks = ctx->executed;
	worker->stolen = ctx->stolen;
	worker->end_ns = ctx->time_ns - start_ns;
	return 0;
}

SEC("gpu/should_try_steal")
int decide(struct gpu_block_ctx *ctx)
{
	u64 after_ns = ctx->time_ns - start_ns;
	bool steals = after_ns < BUDGET_NS;
	struct answer *answer = bpf_ringbuf_reserve(&answers, sizeof(*answer), 0);

	if (answer) {
		answer->after_ns = after_ns;
		answer->worker = ctx->worker;
		answer->victim = ctx->victim;
		answer->victim_left = ctx->victim_left;
		answer->left = ctx->left;
		answer->steals = steals;
		bpf_ringbuf_submit(answer, 0);
	}
	return steals;
}

char LICENSE[] SEC("license") = "GPL";
