// Each iteration reads another entry, so it does not wait, although others write there.
#include "simt.h"

SHARED(table, u64, 16);

SEC("gpu/memory")
int probe(struct gpu_ctx *ctx)
{
	ROLLED
	for (u32 i = 0; i < 16; i++) {
		u32 key = i;
		volatile u64 *used = bpf_map_lookup_elem(&table, &key);

		if (!used)
			return 0;
		if (*used < 100) {
			__sync_fetch_and_add((u64 *)used, 1);
			break;
		}
	}
	return 0;
}
