// SPDX-License-Identifier: GPL-2.0
/* Follow the distance between the last faults: bring the pages up to a few steps ahead. */
#include "gpu_policy.h"

#define AHEAD 8 /* steps */

struct last {
	s32 page, stride;
	s32 next; /* the page that faults if the pages brought last were the right ones */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct last);
} faults SEC(".maps");

SEC("struct_ops/gpu_page_prefetch")
int BPF_PROG(stride_prefetch, uvm_page_index_t page, uvm_perf_prefetch_bitmap_tree_t *tree,
	     uvm_va_block_region_t *most, uvm_bpf_prefetch_decision_t *decision)
{
	u32 first = 0;
	struct last *last = bpf_map_lookup_elem(&faults, &first);
	s32 stride, outer;
	bool known;

	if (!last)
		return GPU_ACTION_DEFAULT;
	stride = page == last->next ? last->stride : (s32)page - last->page;
	known = stride > 0 && stride == last->stride;
	last->page = page;
	last->stride = stride;
	last->next = known ? page + (AHEAD + 1) * stride : 0;
	if (!known) {
		bpf_gpu_set_prefetch_region(decision, 0, 0);
		return GPU_ACTION_BYPASS;
	}
	outer = page + AHEAD * stride + 1;
	bpf_gpu_set_prefetch_region(decision, page, outer < most->outer ? outer : most->outer);
	return GPU_ACTION_BYPASS;
}

SEC(".struct_ops.link")
struct gpu_mem_ops prefetch_stride = {
	.gpu_page_prefetch = (void *)stride_prefetch,
};
