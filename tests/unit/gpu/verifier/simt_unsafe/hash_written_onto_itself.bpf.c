// The entry is passed as its own new value.
#include "simt.h"

HASHED(totals, u64, 64);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u64 key = ctx->kernel;
	u64 *total = bpf_map_lookup_elem(&totals, &key);

	if (total)
		bpf_map_update_elem(&totals, &key, total, BPF_EXIST); // refuse: hash-insert-race at this line
	return 0;
}
