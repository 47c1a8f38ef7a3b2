// A function writes through the address of its caller's variable.
#include "simt.h"

NOINLINE int fill(u64 *where, u64 times)
{
	*where = times * 2;
	return 0;
}

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u64 kernel = ctx->kernel, filled = 0;

	fill(&filled, gpu_lane_id());
	if (kernel > 3)
		gpu_barrier();
	return filled;
}
