// All threads share global variables too.
#include "simt.h"

static volatile u64 state;

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	state = state * 6364136223846793005ULL; // refuse: lost-update at this line
	return 0;
}
