// Atomics are exact under any divergence.
#include "simt.h"

SHARED(counts, u64, 4);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = ctx->space & 3;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (count && (ctx->address & 4))
		__sync_fetch_and_add(count, 1);
	return 0;
}
