#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item && gpu_lane_id() > 3)
		return 0;
	item->count = 1; // refuse: null-not-checked at this line
	return 0;
}
