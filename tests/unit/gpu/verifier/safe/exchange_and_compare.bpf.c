#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	u64 old = __sync_lock_test_and_set(&item->count, 5);

	__sync_val_compare_and_swap(&item->total, old, old + 1);
	__sync_fetch_and_or(&item->small[3], 1);
	__sync_fetch_and_xor(&item->small[2], 3);
	__sync_fetch_and_and(&item->small[1], 7);
	return 0;
}
