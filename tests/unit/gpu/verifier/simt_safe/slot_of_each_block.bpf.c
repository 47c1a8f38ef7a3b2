// The first thread of each block writes its block's slot.
#include "simt.h"

SHARED(begins, u64, 1024);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u64 x, y, z;

	gpu_thread_idx(&x, &y, &z);
	if (x | y | z)
		return 0;
	u32 key = gpu_block_number();
	u64 *begin = bpf_map_lookup_elem(&begins, &key);
	if (begin)
		*begin = gpu_globaltimer();
	return 0;
}
