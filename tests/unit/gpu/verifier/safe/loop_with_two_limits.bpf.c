#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	u64 sum = 0, limit = item->count;

	ROLLED for (u64 at = 0; at < limit && at < 100; at++)
		sum += gpu_clock();
	item->total = sum;
	return 0;
}
