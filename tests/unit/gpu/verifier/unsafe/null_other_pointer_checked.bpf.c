#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *one = bpf_map_lookup_elem(&own, &key);
	struct item *other = bpf_map_lookup_elem(&items, &key);

	if (one)
		other->count = 1; // refuse: null-not-checked at this line
	return 0;
}
