/* Two programs in one section and one in another, calls within and across sections, all kinds of global data. */
#include "accel_gpu.h"

struct point {
	u32 x;
	s16 y;
	char name[8];
};

struct {
	__uint(type, BPF_MAP_TYPE_GPU_HASH);
	__uint(max_entries, 128);
	__type(key, struct point);
	__type(value, u64);
	__uint(map_flags, BPF_F_NO_PREALLOC);
} by_point SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 7);
	__uint(key_size, 4);
	__uint(value_size, 24);
} plain SEC(".maps");

const volatile u32 limit = 7;
const volatile u32 table[4] = {10, 20, 30, 40};
u64 total = 5;
static volatile u32 hits[3];

static __noinline u64 scaled(u64 value)
{
	barrier_var(value);
	return value * limit;
}

__noinline u64 shared(u64 value)
{
	barrier_var(value);
	return scaled(value) + 1;
}

SEC("gpu/exit")
int first(struct gpu_ctx *ctx)
{
	struct point key = {.x = ctx->site};
	u64 *value = bpf_map_lookup_elem(&by_point, &key);

	if (value)
		total += *value;
	return shared(ctx->size);
}

SEC("gpu/exit")
int second(struct gpu_ctx *ctx)
{
	gpu_puts("a literal");
	hits[2]++;
	return table[3];
}

SEC("gpu/memory/matmul*")
int third(struct gpu_ctx *ctx)
{
	u32 key = 3;

	bpf_map_delete_elem(&plain, &key);
	bpf_ringbuf_output(&records, &key, sizeof(key), 0);
	return scaled(ctx->size);
}

SEC("uprobe/libcudart.so:cudaLaunchKernel")
int on_cpu(struct pt_regs *ctx)
{
	return bpf_get_prandom_u32();
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
