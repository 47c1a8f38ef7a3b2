// Lanes that returned never reach the barrier.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u64 x, y, z;

	gpu_thread_idx(&x, &y, &z);
	if (x > 99)
		return 0;
	gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
