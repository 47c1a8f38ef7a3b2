#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	__sync_fetch_and_add((u64 *)&item->small[1], 1); // refuse: misaligned-atomic at this line
	return 0;
}
