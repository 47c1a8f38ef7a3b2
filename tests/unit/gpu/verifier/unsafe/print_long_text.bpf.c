#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	static const char format[] = "0123456789012345678901234567890123456789012345678901234567890123"
				     "0123456789012345678901234567890123456789012345678901234567890123 %d";

	bpf_trace_printk(format, sizeof(format), 1); // refuse: print-format at this line
	return 0;
}
