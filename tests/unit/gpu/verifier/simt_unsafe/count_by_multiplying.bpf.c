// There is no atomic multiplication.
#include "simt.h"

SHARED(products, u64, 1);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *product = bpf_map_lookup_elem(&products, &key);

	if (product)
		*product = *product * 3 + 1; // refuse: lost-update at this line
	return 0;
}
