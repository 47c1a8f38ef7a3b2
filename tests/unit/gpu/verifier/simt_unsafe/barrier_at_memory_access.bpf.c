// The kernel itself may have diverged where the program is called.
#include "simt.h"

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	gpu_barrier(); // refuse: divergent-barrier at this line
	return 0;
}
