// The leader waits alone at the barrier.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	if (gpu_is_leader())
		gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
