// A loop that ends when it finds something does not wait for other threads.
#include "simt.h"

SHARED(table, u64, 16);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u64 found = 16;

	ROLLED
	for (u32 i = 0; i < 16; i++) {
		u32 key = i;
		u64 *end = bpf_map_lookup_elem(&table, &key);

		if (end && ctx->address < *end) {
			found = i;
			break;
		}
	}
	return found;
}
