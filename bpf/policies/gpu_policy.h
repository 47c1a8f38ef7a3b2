/* SPDX-License-Identifier: Apache-2.0 */
/* For policies of a GPU's driver: its types, and the functions by which a policy asks for something. */
#ifndef GPU_POLICY_H
#define GPU_POLICY_H

#include <vmlinux.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif
#include "gpu_driver.h"
#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

/* Ask for the pages from first to outer - 1 of the block. With (0, 0): none but the page that faulted. */
extern int bpf_gpu_set_prefetch_region(uvm_bpf_prefetch_decision_t *decision_ctx, u64 first, u64 outer) __ksym;
/* Ask for a place of the chunk. A hook may ask once; a second, other request makes the driver ignore both. */
extern int bpf_gpu_request_reorder(uvm_bpf_pmm_decision_ctx_t *decision_ctx, u64 destination, u64 position) __ksym;
/* In on_task_init: the task's time slice, and how often it is on the runlist (see docs/policies.md). */
extern int bpf_nv_gpu_set_timeslice(struct nv_gpu_task_init_ctx *ctx, u64 timeslice_us) __ksym;
extern int bpf_nv_gpu_set_interleave(struct nv_gpu_task_init_ctx *ctx, u32 interleave_level) __ksym;
/* In on_timeslice_control: the time slice that the task gets instead of the one that its process asks for. */
extern int bpf_nv_gpu_override_timeslice(struct nv_gpu_timeslice_control_ctx *ctx, u64 timeslice_us) __ksym;
/* In on_bind: the task gets nothing. */
extern void bpf_nv_gpu_reject_bind(struct nv_gpu_bind_ctx *ctx) __ksym;
/* In a probe of a launch, SEC("uprobe.s/..."): a task that has the GPU loses it until its next turn. */
extern int bpf_nv_gpu_preempt_tsg(u32 hClient, u32 hTsg) __ksym;

char _license[] SEC("license") = "GPL";

#endif
