// A value that the program itself changes may differ between threads.
#include "simt.h"

SHARED(arrivals, u64, 1);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *arrived = bpf_map_lookup_elem(&arrivals, &key);

	if (!arrived)
		return 0;
	__sync_fetch_and_add(arrived, 1);
	if (*arrived > 31)
		gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
