#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 at = 8;

	asm volatile("r2 = r10\n*(u64 *)(r2 + 8) = %0" : : "r"(at) : "r2", "memory"); // refuse: out-of-bounds-stack at this line
	return 0;
}
