// All threads run the same number of iterations.
#include "simt.h"

NOINLINE u64 meet(u64 times)
{
	u64 sum = 0;

	ROLLED
	for (u64 i = 0; i < 16; i++) {
		if (i >= times)
			break;
		gpu_barrier();
		sum += i * gpu_lane_id();
	}
	return sum;
}

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	return meet(ctx->kernel) + meet(4);
}
