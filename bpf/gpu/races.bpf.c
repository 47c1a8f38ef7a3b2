// SPDX-License-Identifier: Apache-2.0
// Accesses of each thread to shared and global memory, and what orders them: barriers of the block, and instructions with
// which lanes or threads wait for each other otherwise. The host looks for conflicts in the records.
#include "accel_gpu.h"

struct event {
	u64 address; // at instructions of a warp the lanes that they name, else 0 at barriers
	u64 value; // that a store writes; of several components a hash
	u32 kernel;
	u32 site;
	u32 size; // bytes
	u32 values; // components of the value; 0 if it is not known
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 20);
	__type(value, struct event);
} events SEC(".maps");

u64 missed; // events without a record: without a barrier, accesses that it orders would look like races

static __always_inline u64 hash(struct gpu_ctx *ctx)
{
	return ctx->value0 ^ ctx->value1 * 0x9e3779b97f4a7c15 ^ ctx->value2 * 0xc2b2ae3d27d4eb4f ^
	       ctx->value3 * 0x165667b19e3779f9;
}

static __always_inline int record(struct gpu_ctx *ctx, u64 address, u32 values)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&missed, 1);
		return 0;
	}
	event->address = address;
	event->value = hash(ctx);
	event->kernel = ctx->kernel;
	event->site = ctx->site;
	event->size = ctx->size;
	event->values = values;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("gpu/memory")
int access(struct gpu_ctx *ctx)
{
	// Of those that name no space, the host uses atomics and volatile accesses, which order others.
	if (ctx->space == GPU_SPACE_LOCAL)
		return 0;
	return record(ctx, ctx->address, ctx->values <= 4 ? ctx->values : 0);
}

SEC("gpu/barrier")
int wait(struct gpu_ctx *ctx)
{
	return record(ctx, 0, 0);
}

SEC("gpu/sync")
int synchronize(struct gpu_ctx *ctx)
{
	return record(ctx, ctx->mask, 0);
}

char LICENSE[] SEC("license") = "GPL";
