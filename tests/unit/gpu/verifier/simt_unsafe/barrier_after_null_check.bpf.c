// Threads beyond the limit of a per-thread map get null and miss the barrier.
#include "simt.h"

PER_THREAD(counts, u64, 1);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (!count)
		return 0;
	*count += 1;
	gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
