// The key is the block number, but all threads of the block store.
#include "simt.h"

SHARED(ends, u64, 1024);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u32 key = gpu_block_number();
	u64 *end = bpf_map_lookup_elem(&ends, &key);

	if (end)
		*end = gpu_globaltimer(); // refuse: racy-update at this line
	return 0;
}
