// SPDX-License-Identifier: GPL-2.0
/* Most recently used goes first: for loops over more than the memory, of which a part then stays. */
#include "gpu_policy.h"

SEC("struct_ops/gpu_block_activate")
int BPF_PROG(mru_activate, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_HEAD);
	return GPU_ACTION_BYPASS;
}

SEC("struct_ops/gpu_block_access")
int BPF_PROG(mru_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_HEAD);
	return GPU_ACTION_BYPASS;
}

SEC(".struct_ops.link")
struct gpu_mem_ops mru = {
	.gpu_block_activate = (void *)mru_activate,
	.gpu_block_access = (void *)mru_access,
};
