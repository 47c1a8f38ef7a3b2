#include "programs.h"

static volatile u64 seen[1024];

SEC("gpu/memory")
int judged(struct gpu_ctx *ctx)
{
	u32 slot = 0;

	if (gpu_clock() & 1)
		slot |= 1;
	if (gpu_clock() & 2)
		slot |= 2;
	if (gpu_clock() & 4)
		slot |= 4;
	if (gpu_clock() & 8)
		slot |= 8;
	if (gpu_clock() & 16)
		slot |= 16;
	if (gpu_clock() & 32)
		slot |= 32;
	if (gpu_clock() & 64)
		slot |= 64;
	if (gpu_clock() & 128)
		slot |= 128;
	if (gpu_clock() & 256)
		slot |= 256;
	seen[slot] = 1;
	return 0;
}
