// All threads share global variables.
#include "simt.h"

static volatile u64 total;

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	total += 1; // promote: add
	return 0;
}
