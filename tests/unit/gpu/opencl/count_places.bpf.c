/* Counts every kind of place by its number, with the bytes and the sum of the addresses of accesses. */
#include "accel_gpu.h"

#define PLACES 4096

struct access {
	u64 count, bytes, sum, values;
};

struct branch {
	u64 count, taken;
};

GPU_MAP(entries, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, PLACES);
GPU_MAP(exits, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, PLACES);
GPU_MAP(barriers, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, PLACES);
GPU_MAP(accesses, BPF_MAP_TYPE_GPU_ARRAY, u32, struct access, PLACES);
GPU_MAP(loaded, BPF_MAP_TYPE_GPU_ARRAY, u32, u64, PLACES);
GPU_MAP(branches, BPF_MAP_TYPE_GPU_ARRAY, u32, struct branch, PLACES);
GPU_MAP(work, BPF_MAP_TYPE_PER_THREAD_ARRAY, u32, u64, 1);

static __always_inline int add_one(void *map, u32 key)
{
	u64 *number = bpf_map_lookup_elem(map, &key);

	if (number)
		__sync_fetch_and_add(number, 1);
	return 0;
}

SEC("gpu/entry")
int enter(struct gpu_ctx *ctx)
{
	return add_one(&entries, ctx->kernel);
}

SEC("gpu/exit")
int leave(struct gpu_ctx *ctx)
{
	return add_one(&exits, ctx->kernel);
}

SEC("gpu/barrier")
int wait(struct gpu_ctx *ctx)
{
	return add_one(&barriers, ctx->kernel);
}

SEC("gpu/memory")
int touch(struct gpu_ctx *ctx)
{
	u32 key = ctx->site, zero = 0;
	struct access *access = bpf_map_lookup_elem(&accesses, &key);
	u64 *mine = bpf_map_lookup_elem(&work, &zero);

	if (access) {
		__sync_fetch_and_add(&access->count, 1);
		__sync_fetch_and_add(&access->bytes, ctx->size);
		__sync_fetch_and_add(&access->sum, ctx->address);
		if (ctx->values)
			__sync_fetch_and_add(&access->values, ctx->value0);
	}
	if (mine)
		*mine += ctx->size;
	return 0;
}

SEC("gpu/loaded")
int load(struct gpu_ctx *ctx)
{
	u32 key = ctx->site;
	u64 *sum = bpf_map_lookup_elem(&loaded, &key);

	if (sum && ctx->values)
		__sync_fetch_and_add(sum, ctx->value0);
	return 0;
}

SEC("gpu/branch")
int decide(struct gpu_ctx *ctx)
{
	u32 key = ctx->site;
	struct branch *branch = bpf_map_lookup_elem(&branches, &key);

	if (branch) {
		__sync_fetch_and_add(&branch->count, 1);
		if (ctx->address)
			__sync_fetch_and_add(&branch->taken, 1);
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
