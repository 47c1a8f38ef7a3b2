// SPDX-License-Identifier: Apache-2.0
// Where each warp ran: multiprocessor and slot there, and which lanes were in use.
#include "accel_gpu.h"

struct placed {
	u64 time; // globaltimer, ns
	u64 block;  // row-major over the grid
	u32 kernel;
	u32 lanes;  // mask
	u16 warp;   // in its block
	u16 sm;
	u32 slot;   // of the multiprocessor
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16 << 20);
	__type(value, struct placed);
} warps SEC(".maps");

SEC("gpu.warp/entry")
int begin(struct gpu_ctx *ctx)
{
	struct placed *record = bpf_ringbuf_reserve(&warps, sizeof(*record), 0);
	u64 x, y, z, wide, high, deep;

	if (!record)
		return 0;
	gpu_thread_idx(&x, &y, &z);
	gpu_block_dim(&wide, &high, &deep);
	record->time = gpu_globaltimer();
	record->block = gpu_block_number();
	record->kernel = ctx->kernel;
	record->lanes = ctx->active;
	record->warp = ((z * high + y) * wide + x) / 32;
	record->sm = gpu_sm_id();
	record->slot = gpu_warp_id();
	bpf_ringbuf_submit(record, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
