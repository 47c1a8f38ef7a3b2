#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	volatile u32 local[4] = {};

	local[gpu_lane_id() & 7] = 1; // refuse: out-of-bounds-stack at this line
	return 0;
}
