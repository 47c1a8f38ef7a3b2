#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 key;

	if (gpu_lane_id() == 3)
		key = 1;
	HIDE(ctx);
	asm volatile("" : : "r"(&key) : "memory");
	bpf_map_delete_elem(&counts, &key); // refuse: uninitialised-stack at this line
	return 0;
}
