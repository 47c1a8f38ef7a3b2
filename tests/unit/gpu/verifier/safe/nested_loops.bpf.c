#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	u64 sum = 0;

	ROLLED for (u32 row = 0; row < 40; row++)
		ROLLED for (u32 column = 0; column < 40; column++)
			if (gpu_clock() > row * column)
				sum += row;
	item->total = sum;
	return 0;
}
