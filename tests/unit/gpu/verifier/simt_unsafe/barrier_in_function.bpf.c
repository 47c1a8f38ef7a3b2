// The branch is in the caller, the barrier in the called function.
#include "simt.h"

NOINLINE int meet(u64 times)
{
	gpu_barrier(); // refuse: divergent-barrier at this line
	return times * 3;
}

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	if (gpu_thread_number() & 1)
		return meet(ctx->kernel);
	return 0;
}
