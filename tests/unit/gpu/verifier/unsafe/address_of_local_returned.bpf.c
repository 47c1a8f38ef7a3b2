#include "programs.h"

NOINLINE u64 *make(u64 number)
{
	volatile u64 local = number;
	u64 address = (u64)&local;

	HIDE(address);
	return (u64 *)address; // refuse: dangling-stack-pointer at this line
}

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	return (int)*make(gpu_lane_id());
}
