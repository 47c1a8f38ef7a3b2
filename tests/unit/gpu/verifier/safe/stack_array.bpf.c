#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	volatile u8 seen[32] = {};
	u32 count = 0;

	seen[gpu_lane_id() & 31] = 1;
	seen[gpu_warp_id() % 32] = 1;
	for (u32 at = 0; at < 32; at++)
		count += seen[at];
	item->total = count;
	return 0;
}
