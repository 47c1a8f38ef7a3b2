// The lane number passes through the stack, a function and arithmetic.
#include "simt.h"

NOINLINE u64 blur(u64 number)
{
	return (number * 7) ^ (number >> 3);
}

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	volatile u64 kept = gpu_lane_id();

	if (blur(kept) > 50)
		gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
