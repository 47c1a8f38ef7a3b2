// The lanes have reconverged.
#include "simt.h"

SHARED(counts, u64, 2);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (!count)
		return 0;
	if (gpu_lane_id() & 1)
		__sync_fetch_and_add(count, 1);
	gpu_barrier();
	return 0;
}
