#include "programs.h"

static volatile u32 histogram[16];

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	histogram[gpu_warp_id()] = 1; // refuse: out-of-bounds-value at this line
	return 0;
}
