#include "programs.h"

SEC("gpu/exit")
int judged(struct gpu_ctx *ctx)
{
	ROLLED for (u32 at = 0; at < 5; at++) {
		u64 *record = bpf_ringbuf_reserve(&ring, 8, 0);

		if (!record)
			break;
		*record = at;
		bpf_ringbuf_submit(record, 0);
	}
	return 0;
}
