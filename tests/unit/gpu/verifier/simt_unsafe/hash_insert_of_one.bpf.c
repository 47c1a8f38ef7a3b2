// All lanes find nothing and one inserts its 1; the 1s of the others are lost.
#include "simt.h"

HASHED(totals, u64, 64);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u64 key = gpu_sm_id(), one = 1;
	u64 *total = bpf_map_lookup_elem(&totals, &key);

	if (total)
		__sync_fetch_and_add(total, 1);
	else
		bpf_map_update_elem(&totals, &key, &one, BPF_NOEXIST); // refuse: hash-insert-race at this line
	return 0;
}
