// Each operation that has an atomic.
#include "simt.h"

struct all {
	u64 added, taken, set, kept, flipped;
};
SHARED(values, struct all, 4);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 address = ctx->address;
	struct all *all = bpf_map_lookup_elem(&values, &key);

	if (!all)
		return 0;
	all->added += address; // promote: add
	all->taken -= address; // promote: sub
	all->set |= address; // promote: or
	all->kept &= address; // promote: and
	all->flipped ^= address; // promote: xor
	return 0;
}
