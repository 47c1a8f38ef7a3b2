// Block and thread indices are all zero: only one thread gets here.
#include "simt.h"

SHARED(last, u64, 1);
HASHED(totals, u64, 64);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u64 bx, by, bz, tx, ty, tz, id = 5;
	u32 key = 0;

	gpu_block_idx(&bx, &by, &bz);
	gpu_thread_idx(&tx, &ty, &tz);
	if (bx != 0 || by != 0 || bz != 0 || tx != 0 || ty != 0 || tz != 0)
		return 0;
	u64 *when = bpf_map_lookup_elem(&last, &key);
	if (when)
		*when = gpu_globaltimer() - *when;
	u64 *total = bpf_map_lookup_elem(&totals, &id);
	u64 next = total ? *total + 1 : 1;
	bpf_map_update_elem(&totals, &id, &next, BPF_ANY);
	gpu_puts("once");
	return 0;
}
