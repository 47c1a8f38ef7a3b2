// The kernel may have diverged before it reaches the program.
#include "simt.h"

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
