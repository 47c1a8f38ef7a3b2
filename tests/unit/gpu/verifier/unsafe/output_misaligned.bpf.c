#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 place[8] = {};

	gpu_thread_idx((u64 *)&place[0], (u64 *)&place[3], (u64 *)&place[5]); // refuse: misaligned-argument at this line
	return 0;
}
