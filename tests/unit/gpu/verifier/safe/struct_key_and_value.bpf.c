#include "programs.h"

SEC("gpu/memory")
int judged(struct gpu_ctx *ctx)
{
	struct pair key = {.first = ctx->address, .second = ctx->site}, value = {};
	struct pair *found = bpf_map_lookup_elem(&pairs, &key);

	if (found) {
		__sync_fetch_and_add(&found->first, 1);
		bpf_map_update_elem(&pairs, found, found, 0);
	} else {
		bpf_map_update_elem(&pairs, &key, &value, 1);
	}
	return 0;
}
