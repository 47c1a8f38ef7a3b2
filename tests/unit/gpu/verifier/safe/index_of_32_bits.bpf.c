#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	int index = (int)gpu_lane_id();

	if (index >= 0 && index < 4)
		item->small[index] = 1;
	return 0;
}
