// Another thread may store a larger value between the comparison and the store.
#include "simt.h"

SHARED(largest, u64, 1);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *top = bpf_map_lookup_elem(&largest, &key);

	if (top && ctx->address > *top)
		*top = ctx->address; // refuse: racy-update at this line
	return 0;
}
