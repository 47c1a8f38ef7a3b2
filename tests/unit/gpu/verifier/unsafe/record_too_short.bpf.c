#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 *record = bpf_ringbuf_reserve(&ring, 16, 0);

	if (!record)
		return 0;
	record[2] = 1; // refuse: out-of-bounds-value at this line
	bpf_ringbuf_submit(record, 0);
	return 0;
}
