#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	u64 sum = 0;

	ROLLED for (u32 at = 0; at < 9; at++) {
		sum += ((volatile u32 *)item)[at]; // refuse: out-of-bounds-value at this line
	}
	item->total = sum;
	return 0;
}
