// One lane per warp, in all warps.
#include "simt.h"

SHARED(last, u64, 1);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *mask = bpf_map_lookup_elem(&last, &key);

	if (mask && gpu_is_leader())
		*mask = gpu_active_mask(); // refuse: racy-update at this line
	return 0;
}
