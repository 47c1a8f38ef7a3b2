#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 key = 1;
	struct odd *odd = bpf_map_lookup_elem(&odds, &key);

	if (odd)
		__sync_fetch_and_add((u64 *)odd, 1); // refuse: misaligned-atomic at this line
	return 0;
}
