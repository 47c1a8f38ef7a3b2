// Each diverged part of a warp has its own leader.
#include "simt.h"

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	if ((ctx->address & 4) && gpu_is_leader())
		gpu_puts("hello"); // note: print-per-thread at this line
	return 0;
}
