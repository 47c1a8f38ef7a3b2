// BPF_ANY resets to zero what other threads counted since the lookup.
#include "simt.h"

HASHED(totals, u64, 64);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u64 key = gpu_sm_id(), none = 0;
	u64 *total = bpf_map_lookup_elem(&totals, &key);

	if (!total)
		bpf_map_update_elem(&totals, &key, &none, BPF_ANY); // refuse: hash-insert-race at this line
	total = bpf_map_lookup_elem(&totals, &key);
	if (total)
		__sync_fetch_and_add(total, 1);
	return 0;
}
