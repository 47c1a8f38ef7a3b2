// SPDX-License-Identifier: Apache-2.0
// Pages of global memory that warps access, one record for each request and page, of the lowest lane that accesses it.
#include "accel_gpu.h"

#define PAGE_SHIFT 12

struct touch {
	u64 page;
	u64 time; // globaltimer
	u32 kernel;
	u32 site;
	u32 more; // pages behind this one, for long copies
	u32 write;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 20);
	__type(value, struct touch);
} touches SEC(".maps");

SEC("gpu/unshared")
int touch(struct gpu_ctx *ctx)
{
	u64 page = ctx->address >> PAGE_SHIFT, end;
	struct touch *record;

	if (ctx->space != GPU_SPACE_GLOBAL && ctx->space != GPU_SPACE_GENERIC)
		return 0;
	if (!gpu_is_first(page))
		return 0;
	// A copy by a tensor map: the address is the map's, those of the elements are not known.
	if (!ctx->size)
		return 0;
	record = bpf_ringbuf_reserve(&touches, sizeof(*record), 0);
	if (!record)
		return 0;
	end = ctx->address + ctx->size;
	record->page = page;
	record->time = gpu_globaltimer();
	record->kernel = ctx->kernel;
	record->site = ctx->site;
	record->more = end > ctx->address ? ((end - 1) >> PAGE_SHIFT) - page : 0;
	record->write = ctx->operation == GPU_OPERATION_STORE || ctx->operation == GPU_OPERATION_ATOMIC;
	bpf_ringbuf_submit(record, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
