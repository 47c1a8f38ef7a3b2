// SPDX-License-Identifier: GPL-2.0
/* First in, first out: accesses change nothing. */
#include "gpu_policy.h"

SEC("struct_ops/gpu_block_access")
int BPF_PROG(fifo_access, uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision)
{
	return GPU_ACTION_BYPASS;
}

SEC(".struct_ops.link")
struct gpu_mem_ops fifo = {
	.gpu_block_access = (void *)fifo_access,
};
