#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	char text[16];

	text[0] = 'x';
	bpf_trace_printk(text, sizeof(text)); // refuse: uninitialised-stack at this line
	return 0;
}
