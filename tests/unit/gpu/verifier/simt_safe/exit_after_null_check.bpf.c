// A null check for threads beyond the map's limit does not make the exit of whole blocks a warning.
#include "simt.h"

PER_THREAD(counts, u64, 1);

SEC("gpu/entry")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 *count = bpf_map_lookup_elem(&counts, &key);

	if (!count)
		return 0;
	*count += 1;
	if (gpu_block_number() > 3)
		gpu_exit();
	return 0;
}
