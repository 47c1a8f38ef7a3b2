// All threads overwrite the same entry; the last one survives.
#include "simt.h"

SHARED(last, u64, 1);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u32 key = 0;
	u64 now = gpu_globaltimer();

	bpf_map_update_elem(&last, &key, &now, BPF_ANY); // warn: same-slot-update at this line
	return 0;
}
