// A helper that writes to a shared value is a store like any other.
#include "simt.h"

struct where {
	u64 x, y, z;
};
SHARED(places, struct where, 1);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct where *place = bpf_map_lookup_elem(&places, &key);

	if (place)
		gpu_thread_idx(&place->x, &place->y, &place->z); // refuse: racy-update at this line
	return 0;
}
