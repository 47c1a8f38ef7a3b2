// Waits until another thread inserts.
#include "simt.h"

HASHED(totals, u64, 64);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u64 key = 7, none = 0;

	if (gpu_lane_id() == 3)
		bpf_map_update_elem(&totals, &key, &none, BPF_NOEXIST);
	ROLLED
	for (int i = 0; i < 40; i++)
		if (bpf_map_lookup_elem(&totals, &key)) // refuse: spin at this line
			break;
	return 0;
}
