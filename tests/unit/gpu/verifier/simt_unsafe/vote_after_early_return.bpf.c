// Lanes that returned do not vote.
#include "simt.h"

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	if (ctx->address < 4096)
		return 0;
	return gpu_any(ctx->address & 4); // refuse: divergent-vote at this line
}
