// The program uses the new value afterwards.
#include "simt.h"

SHARED(counts, u64, 4);
PER_THREAD(tickets, u64, 1);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *count = bpf_map_lookup_elem(&counts, &key);
	u64 *ticket = bpf_map_lookup_elem(&tickets, &key);

	if (count && ticket) {
		u64 mine = *count + 1;

		*count = mine; // promote: add
		*ticket = mine;
	}
	return 0;
}
