// The key is the thread's own number.
#include "simt.h"

struct record {
	u64 begin, end;
};
SHARED(records, struct record, 4096);

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	u32 key = gpu_thread_number();
	struct record *record = bpf_map_lookup_elem(&records, &key);

	if (record) {
		record->begin = record->end;
		record->end = gpu_globaltimer();
	}
	return 0;
}
