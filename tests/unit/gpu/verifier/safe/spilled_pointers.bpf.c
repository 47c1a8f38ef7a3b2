#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u32 first = 0, second = 1, third = 2;
	struct item *a = bpf_map_lookup_elem(&items, &first);
	struct item *b = bpf_map_lookup_elem(&items, &second);
	struct item *c = bpf_map_lookup_elem(&items, &third);
	struct odd *d = bpf_map_lookup_elem(&odds, &first);
	u64 *e = bpf_map_lookup_elem(&own, &first);
	u64 lane = gpu_lane_id(), warp = gpu_warp_id();

	if (!a || !b || !c || !d || !e)
		return 0;
	if (lane > 3 || warp > 2)
		return 0;
	gpu_membar();
	a->small[lane] = 1;
	b->small[warp] = 2;
	c->total = lane + warp;
	d->c = 5;
	*e = gpu_clock();
	return 0;
}
