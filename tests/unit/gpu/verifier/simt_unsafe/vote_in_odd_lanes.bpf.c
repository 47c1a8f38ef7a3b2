// Half of the voters are missing.
#include "simt.h"

SHARED(votes, u64, 1);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u64 x, y, z;

	gpu_thread_idx(&x, &y, &z);
	if (x & 1)
		return gpu_ballot(x > 4); // refuse: divergent-vote at this line
	return 0;
}
