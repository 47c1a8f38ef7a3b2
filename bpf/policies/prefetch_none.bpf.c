// SPDX-License-Identifier: GPL-2.0
/* Bring nothing but the page that faulted. */
#include "gpu_policy.h"

SEC("struct_ops/gpu_page_prefetch")
int BPF_PROG(none_prefetch, uvm_page_index_t page, uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *most,
	     uvm_bpf_prefetch_decision_t *decision)
{
	bpf_gpu_set_prefetch_region(decision, 0, 0);
	return GPU_ACTION_BYPASS;
}

SEC(".struct_ops.link")
struct gpu_mem_ops prefetch_none = {
	.gpu_page_prefetch = (void *)none_prefetch,
};
