#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	struct pair pair;

	pair.first = gpu_lane_id();
	bpf_map_lookup_elem(&pairs, &pair); // refuse: uninitialised-stack at this line
	return 0;
}
