#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 *record = bpf_ringbuf_reserve(&ring, 8, 0);

	*record = 1; // refuse: null-not-checked at this line
	bpf_ringbuf_submit(record, 0);
	return 0;
}
