// Four-byte counters.
#include "simt.h"

SHARED(counts, u32, 4);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u32 *count = bpf_map_lookup_elem(&counts, &key);

	if (count)
		*count += ctx->size; // promote: add
	return 0;
}
