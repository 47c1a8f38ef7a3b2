#include "programs.h"

SEC("gpu/memory")
int judged(struct gpu_ctx *ctx)
{
	ctx->size = 4; // refuse: write-to-context at this line
	return 0;
}
