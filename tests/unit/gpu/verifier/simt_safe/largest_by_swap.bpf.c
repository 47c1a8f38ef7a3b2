// Compare and swap, repeated if another thread was faster.
#include "simt.h"

SHARED(largest, u64, 1);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *top = bpf_map_lookup_elem(&largest, &key);

	if (!top)
		return 0;
	u64 mine = ctx->address;
	u64 seen = *top;
	ROLLED
	for (int i = 0; i < 64; i++) {
		if (mine <= seen)
			break;
		u64 now = __sync_val_compare_and_swap(top, seen, mine);
		if (now == seen)
			break;
		seen = now;
	}
	return 0;
}
