// The offset within the value is variable.
#include "simt.h"

struct histogram {
	u64 slots[32];
};
SHARED(histograms, struct histogram, 2);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	struct histogram *histogram = bpf_map_lookup_elem(&histograms, &key);

	if (histogram)
		histogram->slots[ctx->size & 31]++; // promote: add
	return 0;
}
