// Insert a zero, look it up again, add atomically.
#include "simt.h"

HASHED(totals, u64, 64);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u64 key = gpu_sm_id(), none = 0;
	u64 *total = bpf_map_lookup_elem(&totals, &key);

	if (!total) {
		bpf_map_update_elem(&totals, &key, &none, BPF_NOEXIST);
		total = bpf_map_lookup_elem(&totals, &key);
	}
	if (total)
		__sync_fetch_and_add(total, 1);
	return 0;
}
