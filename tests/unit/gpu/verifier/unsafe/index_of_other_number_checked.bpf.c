#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	u64 one = gpu_lane_id(), other = gpu_warp_id();

	HIDE(one);
	if (one < 4)
		item->small[other] = 1; // refuse: out-of-bounds-value at this line
	return 0;
}
