#include "programs.h"

SEC("gpu/memory")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	item->total = *(volatile u32 *)&ctx->address; // refuse: partial-context-field at this line
	return 0;
}
