// The lock holder cannot continue while other lanes of its warp try.
#include "simt.h"

SHARED(locks, u64, 1);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *lock = bpf_map_lookup_elem(&locks, &key);

	if (!lock)
		return 0;
	ROLLED
	for (int i = 0; i < 40; i++)
		if (__sync_val_compare_and_swap(lock, 0, 1) == 0) // refuse: spin at this line
			break;
	__sync_fetch_and_and(lock, 0);
	return 0;
}
