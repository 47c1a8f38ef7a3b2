// One line per thread, possibly a million lines.
#include "simt.h"

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	gpu_puts("hello"); // note: print-per-thread at this line
	return 0;
}
