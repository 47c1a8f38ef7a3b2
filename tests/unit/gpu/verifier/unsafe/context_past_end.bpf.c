#include "programs.h"

SEC("gpu/memory")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	item->total = ((volatile u64 *)ctx)[15]; // refuse: out-of-bounds-context at this line
	return 0;
}
