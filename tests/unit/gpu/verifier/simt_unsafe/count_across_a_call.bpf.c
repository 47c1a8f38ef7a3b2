// The value is read before a call and written after it.
#include "simt.h"

SHARED(sums, u64, 1);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *sum = bpf_map_lookup_elem(&sums, &key);

	if (sum) {
		u64 old = *sum;

		*sum = old + gpu_globaltimer(); // refuse: lost-update at this line
	}
	return 0;
}
