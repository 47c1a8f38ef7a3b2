// Each store writes a value read from elsewhere in the map.
#include "simt.h"

struct pair {
	u64 first, second;
};
SHARED(pairs, struct pair, 1);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct pair *pair = bpf_map_lookup_elem(&pairs, &key);

	if (pair) {
		u64 old = pair->first;

		pair->first = pair->second; // refuse: lost-update at this line
		pair->second = old; // refuse: lost-update at this line
	}
	return 0;
}
