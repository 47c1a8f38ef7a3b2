#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *value = bpf_map_lookup_elem(&own, &key);

	*value = 7; // refuse: null-not-checked at this line
	return 0;
}
