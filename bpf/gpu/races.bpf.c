// SPDX-License-Identifier: Apache-2.0
// Accesses of each thread to shared and global memory, and what orders them: barriers of the block, and instructions with
// which lanes or threads wait for each other otherwise. The host looks for conflicts in the records.
#include "accel_gpu.h"

struct event {
	u64 address; // 0 at barriers
	u32 kernel;
	u32 site;
	u32 size; // bytes
	u32 space;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 20);
	__type(value, struct event);
} events SEC(".maps");

u64 missed; // events without a record: without a barrier, accesses that it orders would look like races

static __always_inline int record(struct gpu_ctx *ctx)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&missed, 1);
		return 0;
	}
	event->address = ctx->address;
	event->kernel = ctx->kernel;
	event->site = ctx->site;
	event->size = ctx->size;
	event->space = ctx->space;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

SEC("gpu/memory")
int access(struct gpu_ctx *ctx)
{
	// Instructions that name no space may access local memory, whose addresses are each thread's own.
	if (ctx->space != GPU_SPACE_SHARED && ctx->space != GPU_SPACE_GLOBAL)
		return 0;
	return record(ctx);
}

SEC("gpu/barrier")
int wait(struct gpu_ctx *ctx)
{
	return record(ctx);
}

SEC("gpu/sync")
int synchronize(struct gpu_ctx *ctx)
{
	return record(ctx);
}

char LICENSE[] SEC("license") = "GPL";
