// Read, add, and write back with the helper.
#include "simt.h"

SHARED(counts, u64, 1);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 next = 1;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (count)
		next = *count + 1;
	bpf_map_update_elem(&counts, &key, &next, BPF_ANY); // refuse: lost-update at this line
	return 0;
}
