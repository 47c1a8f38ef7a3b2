// SPDX-License-Identifier: Apache-2.0
// When each thread left its kernel. The ring itself keeps the thread and the launch of each record.
#include "accel_gpu.h"

struct left {
	u64 time; // globaltimer, ns
	u32 kernel;
	u16 sm;
	u16 lane;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
	__type(value, struct left);
} exits SEC(".maps");

SEC("gpu/exit")
int leave(struct gpu_ctx *ctx)
{
	struct left *record = bpf_ringbuf_reserve(&exits, sizeof(*record), 0);

	if (!record)
		return 0;
	record->time = gpu_globaltimer();
	record->kernel = ctx->kernel;
	record->sm = gpu_sm_id();
	record->lane = gpu_lane_id();
	bpf_ringbuf_submit(record, 0);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
