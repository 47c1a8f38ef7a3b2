// A line for each of perhaps a million threads.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	gpu_puts("hello"); // note: print-per-thread at this line
	return 0;
}
