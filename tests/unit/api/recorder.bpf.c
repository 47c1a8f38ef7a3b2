#include "accel_gpu.h"

struct seen {
	u64 address, v0, v1, v2, v3;
	u32 site, size, operation, values, width, type;
};
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
	__type(value, struct seen);
} seen SEC(".maps");

static __always_inline int record(struct gpu_ctx *ctx)
{
	struct seen one = {.address = ctx->address, .site = ctx->site, .size = ctx->size, .operation = ctx->operation};

	one.v0 = gpu_value(ctx, 0);
	one.v1 = gpu_value(ctx, 1);
	one.v2 = gpu_value(ctx, 2);
	one.v3 = gpu_value(ctx, 3);
	one.values = ctx->values;
	one.width = ctx->width;
	one.type = ctx->type;
	bpf_ringbuf_output(&seen, &one, sizeof(one), 0);
	return 0;
}

SEC("gpu/loaded")
int loaded(struct gpu_ctx *ctx)
{
	return record(ctx);
}

SEC("gpu/store")
int store(struct gpu_ctx *ctx)
{
	return record(ctx);
}

SEC("gpu/load")
int before(struct gpu_ctx *ctx)
{
	return record(ctx);
}

char LICENSE[] SEC("license") = "GPL";
