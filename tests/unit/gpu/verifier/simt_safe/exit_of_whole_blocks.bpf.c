// Blocks outside part of the grid exit.
#include "simt.h"

SHARED(parts, u64, 2);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *from = bpf_map_lookup_elem(&parts, &key);

	if (from && gpu_block_number() < *from)
		gpu_exit();
	return 0;
}
