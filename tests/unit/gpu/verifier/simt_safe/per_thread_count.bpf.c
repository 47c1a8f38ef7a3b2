// Each thread has its own count.
#include "simt.h"

PER_THREAD(counts, u64, 1);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (count)
		*count += 1;
	return 0;
}
