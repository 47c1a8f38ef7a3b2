#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	char text[4] = {'a', 'b', 'c', 'd'};

	asm volatile("" : : "r"(text) : "memory");
	gpu_puts(text); // refuse: text-not-terminated at this line
	return 0;
}
