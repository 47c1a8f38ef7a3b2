// The result of a vote is the same in the whole warp.
#include "simt.h"

SHARED(votes, u64, 1);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	if (gpu_any(ctx->address & 64))
		return gpu_all(ctx->address & 32);
	return 0;
}
