// A value that a function wrote through an address may differ between threads.
#include "simt.h"

NOINLINE int fill(u64 *where, u64 times)
{
	*where = times * 2;
	return 0;
}

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u64 filled = 0;

	fill(&filled, gpu_lane_id());
	if (filled > 3)
		gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
