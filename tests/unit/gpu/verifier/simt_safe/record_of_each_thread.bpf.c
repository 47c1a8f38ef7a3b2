// Ring buffers accept records from many threads.
#include "simt.h"

struct event {
	u64 thread, when;
};
struct {
	__uint(type, 27);
	__uint(max_entries, 4096);
} events SEC(".maps");

SEC("gpu/exit")
int probe(struct gpu_ctx *ctx)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event)
		return 0;
	event->thread = gpu_thread_number();
	event->when = gpu_globaltimer();
	bpf_ringbuf_submit(event, 0);
	return 0;
}
