// Comparing only x selects one thread in each row of the block.
#include "simt.h"

SHARED(ends, u64, 1024);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u64 x, y, z;
	u32 key = gpu_block_number();
	u64 *end = bpf_map_lookup_elem(&ends, &key);

	gpu_thread_idx(&x, &y, &z);
	if (end && x == 0)
		*end = gpu_globaltimer(); // refuse: racy-update at this line
	return 0;
}
