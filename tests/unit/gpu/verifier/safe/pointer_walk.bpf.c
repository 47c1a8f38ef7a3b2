#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	volatile u32 *at = item->small;
	volatile u32 *end = at + 4;
	u64 sum = 0;

	ROLLED for (; at != end; at++)
		sum += *at;
	item->total = sum;
	return 0;
}
