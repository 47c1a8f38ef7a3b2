// Atomics need an aligned value.
#include "simt.h"

struct __attribute__((packed)) odd {
	u32 head;
	u64 count;
};
SHARED(odds, struct odd, 4);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct odd *odd = bpf_map_lookup_elem(&odds, &key);

	if (odd)
		odd->count += 1; // refuse: lost-update at this line
	return 0;
}
