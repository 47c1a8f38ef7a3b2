#include "programs.h"

NOINLINE u64 pick(u64 *numbers, u64 index)
{
	return ((volatile u64 *)numbers)[index]; // refuse: out-of-bounds-stack at this line
}

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 numbers[4] = {1, 2, 3, 4};

	return (int)pick(numbers, gpu_lane_id());
}
