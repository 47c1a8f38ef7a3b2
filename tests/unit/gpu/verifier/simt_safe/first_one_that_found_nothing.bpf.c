// Looked up first; nothing is counted in the map, and the first insertion is kept.
#include "simt.h"

HASHED(firsts, u64, 64);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u64 key = ctx->kernel, now = gpu_globaltimer();

	if (!bpf_map_lookup_elem(&firsts, &key))
		bpf_map_update_elem(&firsts, &key, &now, BPF_NOEXIST);
	return 0;
}
