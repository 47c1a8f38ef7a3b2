// One atomic per warp.
#include "simt.h"

SHARED(counts, u64, 1);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (count && gpu_is_leader())
		__sync_fetch_and_add(count, ctx->active);
	return 0;
}
