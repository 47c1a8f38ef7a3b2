// Reads, adds and writes back the thread's own value.
#include "simt.h"

PER_THREAD(counts, u64, 2);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 1;
	u64 next = 1;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (count)
		next = *count + 1;
	bpf_map_update_elem(&counts, &key, &next, BPF_ANY);
	return 0;
}
