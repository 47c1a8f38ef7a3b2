#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	s64 index = (s64)gpu_lane_id();

	if (index < 4)
		item->small[index] = 1; // refuse: out-of-bounds-value at this line
	return 0;
}
