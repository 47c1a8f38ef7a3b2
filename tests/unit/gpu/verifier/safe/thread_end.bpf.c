#include "programs.h"

SEC("gpu/entry")
int judged(struct gpu_ctx *ctx)
{
	u64 x, y, z;

	gpu_block_idx(&x, &y, &z);
	if (x * y * z > 7)
		gpu_exit();
	return 0;
}
