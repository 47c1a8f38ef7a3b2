#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 data[4] = {};
	s64 size = (s64)gpu_lane_id();

	if (size < 32)
		bpf_ringbuf_output(&ring, data, size, 0); // refuse: wrong-argument at this line
	return 0;
}
