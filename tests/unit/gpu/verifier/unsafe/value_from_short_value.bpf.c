#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 key = 1;
	u64 *count = bpf_map_lookup_elem(&counts, &key);
	struct pair pair = {};

	if (count)
		bpf_map_update_elem(&pairs, &pair, count, 0); // refuse: out-of-bounds-key at this line
	return 0;
}
