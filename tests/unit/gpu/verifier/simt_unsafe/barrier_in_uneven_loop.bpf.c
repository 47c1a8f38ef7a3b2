// Lanes leave the loop in different iterations.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u64 lane = gpu_lane_id() & 7;

	ROLLED
	for (u64 i = 0; i < 8; i++) {
		if (i >= lane)
			break;
		gpu_barrier(); // refuse: divergent-barrier at this line
	}
	return 0;
}
