#include "programs.h"

SEC("gpu/memory")
int judged(struct gpu_ctx *ctx)
{
	bpf_map_delete_elem(&counts, ctx); // refuse: wrong-argument at this line
	return 0;
}
