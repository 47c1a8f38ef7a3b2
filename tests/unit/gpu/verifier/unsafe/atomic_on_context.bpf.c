#include "programs.h"

SEC("gpu/memory")
int judged(struct gpu_ctx *ctx)
{
	__sync_fetch_and_add(&ctx->launch, 1); // refuse: write-to-context at this line
	return 0;
}
