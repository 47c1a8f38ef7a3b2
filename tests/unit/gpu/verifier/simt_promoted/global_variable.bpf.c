// Global variables are shared by all threads.
#include "simt.h"

static volatile u64 total;

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	total += 1; // promote: add
	return 0;
}
