// The lane that sets the flag may be waiting for this one.
#include "simt.h"

SHARED(flags, u64, 1);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	volatile u64 *flag = bpf_map_lookup_elem(&flags, &key);

	if (!flag)
		return 0;
	if (gpu_lane_id() == 3)
		*flag = 1;
	ROLLED
	for (int i = 0; i < 40; i++)
		if (*flag) // refuse: spin at this line
			break;
	return 0;
}
