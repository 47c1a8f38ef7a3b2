// Prints one line.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	if (gpu_thread_number() == 0)
		gpu_puts("hello");
	return 0;
}
