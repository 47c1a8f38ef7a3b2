// The number of iterations differs between lanes, and so does the counter.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u64 bits = gpu_thread_number() & 15, n = 0;

	ROLLED
	for (int i = 0; i < 4; i++) {
		if (!bits)
			break;
		bits >>= 1;
		n++;
	}
	if (n == 3)
		gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
