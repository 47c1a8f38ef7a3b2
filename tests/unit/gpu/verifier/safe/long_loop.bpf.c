#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	u64 odd = 0;

	ROLLED for (u32 at = 0; at < 2000; at++)
		if (gpu_clock() & 1)
			odd++;
	item->total = odd;
	return 0;
}
