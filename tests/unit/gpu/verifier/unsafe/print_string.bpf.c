#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	char name[] = "warp";
	static const char format[] = "%s ends";

	bpf_trace_printk(format, sizeof(format), name[0]); // refuse: print-format at this line
	return 0;
}
