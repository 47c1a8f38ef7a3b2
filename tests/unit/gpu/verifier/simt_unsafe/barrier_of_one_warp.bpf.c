// The lanes of a warp agree, but the warps of the block do not.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	if (gpu_warp_id() == 0)
		gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
