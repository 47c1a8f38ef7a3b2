#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	u64 index = gpu_globaltimer();

	if ((u32)index < 4)
		item->small[index] = 1; // refuse: out-of-bounds-value at this line
	return 0;
}
