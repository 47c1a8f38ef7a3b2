#include "programs.h"

SEC("gpu/memory")
int judged(struct gpu_ctx *ctx)
{
	struct item *record = bpf_ringbuf_reserve(&ring, sizeof(struct item), 0);

	if (!record)
		return 0;
	record->count = ctx->address;
	record->total = ctx->size;
	if (ctx->operation == 3)
		bpf_ringbuf_submit(record, 0);
	else
		bpf_ringbuf_discard(record, 0);
	return 0;
}
