#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);
	u64 *total = (u64 *)((char *)item + gpu_lane_id() % 2 * 8); // refuse: null-pointer-arithmetic at this line

	HIDE(total);
	if (!item)
		return 0;
	*total = 1;
	return 0;
}
