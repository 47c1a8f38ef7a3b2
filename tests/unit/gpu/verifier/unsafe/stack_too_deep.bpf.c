#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 at = 8;

	asm volatile("*(u64 *)(r10 - 520) = %0" : : "r"(at) : "memory"); // refuse: out-of-bounds-stack at this line
	return 0;
}
