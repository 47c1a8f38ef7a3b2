// The check and the addition are two steps.
#include "simt.h"

SHARED(counts, u64, 1);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (count) {
		u64 old = *count;

		if (old < 100)
			*count = old + 1; // refuse: lost-update at this line
	}
	return 0;
}
