#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	volatile u64 number;

	return (int)number; // refuse: uninitialised-stack at this line
	return 0;
}
