// Comparing only x selects one thread in each row, not one in the grid.
#include "simt.h"

SHARED(last, u64, 1);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u64 x, y, z;
	u32 key = 0;
	u64 *when = bpf_map_lookup_elem(&last, &key);

	gpu_thread_idx(&x, &y, &z);
	if (when && x == 0)
		*when = gpu_globaltimer(); // refuse: racy-update at this line
	return 0;
}
