#include "programs.h"

SEC("gpu/memory")
int judged(struct gpu_ctx *ctx)
{
	*(u64 *)ctx->address = 0; // refuse: wild-pointer at this line
	return 0;
}
