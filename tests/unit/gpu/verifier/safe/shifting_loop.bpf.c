#include "programs.h"

SEC("gpu/memory")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct item *item = bpf_map_lookup_elem(&items, &key);

	if (!item)
		return 0;
	u64 left = ctx->address;
	u32 bits = 0;

	ROLLED while (left) {
		left >>= 1;
		bits++;
	}
	item->total = bits;
	return 0;
}
