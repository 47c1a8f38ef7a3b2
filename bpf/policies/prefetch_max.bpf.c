// SPDX-License-Identifier: GPL-2.0
/* Bring the whole block with each page that faults. */
#include "gpu_policy.h"

SEC("struct_ops/gpu_page_prefetch")
int BPF_PROG(max_prefetch, uvm_page_index_t page, uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *most,
	     uvm_bpf_prefetch_decision_t *decision)
{
	bpf_gpu_set_prefetch_region(decision, most->first, most->outer);
	return GPU_ACTION_BYPASS;
}

SEC(".struct_ops.link")
struct gpu_mem_ops prefetch_max = {
	.gpu_page_prefetch = (void *)max_prefetch,
};
