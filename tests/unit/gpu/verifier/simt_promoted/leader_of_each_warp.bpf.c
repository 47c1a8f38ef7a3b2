// One lane per warp, in all warps.
#include "simt.h"

SHARED(counts, u64, 4);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (count && gpu_is_leader())
		*count += 1; // promote: add
	return 0;
}
