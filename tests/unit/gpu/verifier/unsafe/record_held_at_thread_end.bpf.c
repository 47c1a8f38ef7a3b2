#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 *record = bpf_ringbuf_reserve(&ring, 8, 0); // refuse: record-leak at this line

	if (!record)
		return 0;
	if (gpu_lane_id() == 5)
		gpu_exit();
	bpf_ringbuf_submit(record, 0);
	return 0;
}
