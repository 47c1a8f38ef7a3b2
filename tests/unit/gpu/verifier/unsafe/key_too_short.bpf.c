#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 1;

	bpf_map_lookup_elem(&pairs, &key); // refuse: out-of-bounds-key at this line
	return 0;
}
