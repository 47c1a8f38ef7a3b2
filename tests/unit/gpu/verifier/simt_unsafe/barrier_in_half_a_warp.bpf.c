// Half of the lanes wait for the other half.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	if (gpu_lane_id() < 16)
		gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
