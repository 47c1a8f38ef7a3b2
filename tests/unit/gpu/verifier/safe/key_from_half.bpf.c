#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 number = gpu_globaltimer();
	u32 key = (u32)number;
	struct item *item;

	if (key >= 8)
		return 0;
	item = bpf_map_lookup_elem(&items, &key);
	if (item)
		item->small[key & 3] = key;
	return 0;
}
