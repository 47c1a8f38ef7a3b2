// SPDX-License-Identifier: Apache-2.0
// Pages of global memory that warps access, one record for each request and page. If the lanes of a warp access
// different pages, each lane writes a record, and the host drops those of the same request and page.
#include "accel_gpu.h"

#define PAGE_SHIFT 12

struct touch {
	u64 page;
	u64 time; // globaltimer
	u32 kernel;
	u32 site;
	u32 active; // lanes of the request
	u16 more; // pages behind this one, for long copies
	u8 write;
	u8 single; // all lanes access this page
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
	u64 single;

	if (ctx->space != GPU_SPACE_GLOBAL && ctx->space != GPU_SPACE_GENERIC)
		return 0;
	// All lanes take part, even those that write no record.
	single = gpu_distinct(page) == 1;
	if (single && !gpu_is_leader())
		return 0;
	record = bpf_ringbuf_reserve(&touches, sizeof(*record), 0);
	if (!record)
		return 0;
	end = ctx->address + ctx->size;
	record->page = page;
	record->time = gpu_globaltimer();
	record->kernel = ctx->kernel;
	record->site = ctx->site;
	record->active = ctx->active;
	record->more = end > ctx->address ? ((end - 1) >> PAGE_SHIFT) - page : 0;
	record->write = ctx->operation == GPU_OPERATION_STORE || ctx->operation == GPU_OPERATION_ATOMIC;
	record->single = single;
	bpf_ringbuf_submit(record, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
