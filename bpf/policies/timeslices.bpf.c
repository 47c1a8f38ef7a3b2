// SPDX-License-Identifier: GPL-2.0
/*
 * Latency-critical and best-effort tenants: processes whose name is in `critical` keep the GPU until they have nothing to
 * do, and are on the runlist between any two others; the others get short time slices, and at most `most` may run.
 */
#include "gpu_policy.h"

volatile const u64 critical_us = 1000000;
volatile const u64 others_us = 200;
volatile const u32 most = 0; /* tasks of others that are admitted; 0: all */

#define CRITICAL_LEVEL 2
#define OTHERS_LEVEL 1

u32 admitted;

struct name {
	char text[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct name); /* of a process */
	__type(value, u32);
} critical SEC(".maps");

static __always_inline bool is_critical(void)
{
	struct name name = {};

	bpf_get_current_comm(&name, sizeof(name));
	return bpf_map_lookup_elem(&critical, &name) != 0;
}

SEC("struct_ops/on_task_init")
int BPF_PROG(slices_init, struct nv_gpu_task_init_ctx *task)
{
	bool first = is_critical();

	bpf_nv_gpu_set_timeslice(task, first ? critical_us : others_us);
	bpf_nv_gpu_set_interleave(task, first ? CRITICAL_LEVEL : OTHERS_LEVEL);
	return 0;
}

SEC("struct_ops/on_bind")
int BPF_PROG(slices_bind, struct nv_gpu_bind_ctx *bind)
{
	if (bind->interleave_level == CRITICAL_LEVEL)
		return 0;
	if (most && admitted >= most) {
		bpf_nv_gpu_reject_bind(bind);
		return 0;
	}
	admitted += 1;
	return 0;
}

/* CUDA asks for a time slice of its own when a context is made. */
SEC("struct_ops/on_timeslice_control")
int BPF_PROG(slices_control, struct nv_gpu_timeslice_control_ctx *task)
{
	bpf_nv_gpu_override_timeslice(task, is_critical() ? critical_us : others_us);
	return 0;
}

SEC(".struct_ops.link")
struct nv_gpu_sched_ops timeslices = {
	.on_task_init = (void *)slices_init,
	.on_bind = (void *)slices_bind,
	.on_timeslice_control = (void *)slices_control,
};
