#include "programs.h"

static const volatile u32 limit = 5;

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	*(volatile u32 *)&limit = 6; // refuse: write-to-read-only at this line
	return 0;
}
