#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	u64 *record = bpf_ringbuf_reserve(&ring, 8, 0);

	if (!record)
		return 0;
	bpf_ringbuf_submit(record, 0);
	*record = 1; // refuse: use-after-submit at this line
	return 0;
}
