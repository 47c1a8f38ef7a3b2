// There are no two-byte atomics.
#include "simt.h"

SHARED(counts, u16, 4);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u16 *count = bpf_map_lookup_elem(&counts, &key);

	if (count)
		*count += 1; // refuse: lost-update at this line
	return 0;
}
