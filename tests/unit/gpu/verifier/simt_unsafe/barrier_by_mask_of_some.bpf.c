// Lanes that arrive one after the other see different masks.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u64 mask = 0;

	if (gpu_lane_id() & 1)
		mask = gpu_active_mask();
	if (mask)
		gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
