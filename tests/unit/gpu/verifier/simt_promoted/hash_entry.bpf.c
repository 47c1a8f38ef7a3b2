// An entry that already exists.
#include "simt.h"

HASHED(totals, u64, 64);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u64 key = ctx->kernel;
	u64 *total = bpf_map_lookup_elem(&totals, &key);

	if (total)
		*total += 1; // promote: add
	return 0;
}
