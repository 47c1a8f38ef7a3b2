// SPDX-License-Identifier: GPL-2.0
/* Least recently used: what the driver does without a policy, asked for explicitly. */
#include "gpu_policy.h"

SEC("struct_ops/gpu_block_access")
int BPF_PROG(lru_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	bpf_gpu_request_reorder(decision, NV_GPU_PMM_DESTINATION_USED, NV_GPU_PMM_POSITION_TAIL);
	return GPU_ACTION_BYPASS;
}

SEC(".struct_ops.link")
struct gpu_mem_ops lru = {
	.gpu_block_access = (void *)lru_access,
};
