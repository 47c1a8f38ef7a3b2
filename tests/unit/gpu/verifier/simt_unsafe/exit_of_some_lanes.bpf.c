// Allowed, but the kernel continues without these lanes.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	if (gpu_lane_id() > 7)
		gpu_exit(); // warn: exit-divergent at this line
	return 0;
}
