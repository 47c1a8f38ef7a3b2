// All threads of a block take the same branch.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	if (gpu_block_number() & 1)
		gpu_barrier();
	return 0;
}
