// All lanes vote, one lane adds.
#include "simt.h"

SHARED(votes, u64, 1);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 mask = gpu_ballot(ctx->address & 64);
	u64 *votes_of = bpf_map_lookup_elem(&votes, &key);

	if (votes_of && gpu_lane_id() == 0)
		__sync_fetch_and_add(votes_of, mask & 1);
	return 0;
}
