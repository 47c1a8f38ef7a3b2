#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	ROLLED while (gpu_lane_id() != 40) // refuse: unbounded-loop at this line
		gpu_membar();
	return 0;
}
