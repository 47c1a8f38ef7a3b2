// The program only reads the map, so all threads see the same value.
#include "simt.h"

SHARED(settings, u64, 1);
const volatile u64 wanted = 3;

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *setting = bpf_map_lookup_elem(&settings, &key);

	if (setting && *setting == wanted)
		gpu_barrier();
	return 0;
}
