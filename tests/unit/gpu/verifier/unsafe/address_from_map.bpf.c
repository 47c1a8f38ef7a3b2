#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	u64 *to = (u64 *)item->count;

	*to = 1; // refuse: wild-pointer at this line
	return 0;
}
