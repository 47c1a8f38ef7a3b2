#include "programs.h"

static const char constant[] = "a constant text";

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	char text[] = "a text on the stack";

	gpu_puts(text);
	gpu_puts(constant);
	bpf_printk("lane %lu of warp %lu", gpu_lane_id(), gpu_warp_id());
	bpf_printk("no numbers");
	bpf_printk("100%% of %x, %-5lld and %c", 1, 2ll, 'c');
	return 0;
}
