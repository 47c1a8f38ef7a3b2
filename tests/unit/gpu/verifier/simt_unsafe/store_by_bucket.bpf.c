// Two lanes may have the same bucket.
#include "simt.h"

SHARED(buckets, u64, 64);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = (ctx->address >> 7) & 63;
	u64 *last = bpf_map_lookup_elem(&buckets, &key);

	if (last)
		*last = ctx->address; // warn: racy-update at this line
	return 0;
}
