#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 *record = bpf_ringbuf_reserve(&ring, gpu_lane_id() + 8, 0); // refuse: wrong-argument at this line

	if (record)
		bpf_ringbuf_discard(record, 0);
	return 0;
}
