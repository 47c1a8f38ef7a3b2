// SPDX-License-Identifier: GPL-2.0
/*
 * Latency-critical tenants take the GPU when they launch a kernel: tasks of processes whose name is in `critical` have a
 * higher interleave level, and after each of their launches the others lose the GPU until their next turn. The probe is
 * on the launch's return: on its entry the job is not queued yet, and another task would get the GPU instead.
 */
#include "gpu_policy.h"

#define CRITICAL_LEVEL 2
#define OTHERS_LEVEL 1
#define MOST_OTHERS 16

struct name {
	char text[16];
};

struct handles {
	u32 client;
	u32 tsg;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct name); /* of a process */
	__type(value, u32);
} critical SEC(".maps");

/* Tasks that are preempted. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_OTHERS);
	__type(key, u32);
	__type(value, struct handles);
} others SEC(".maps");

u32 known; /* of `others` */
u64 launches;

static __always_inline bool is_critical(void)
{
	struct name name = {};

	bpf_get_current_comm(&name, sizeof(name));
	return bpf_map_lookup_elem(&critical, &name) != 0;
}

SEC("struct_ops/on_task_init")
int BPF_PROG(preempt_init, struct nv_gpu_task_init_ctx *task)
{
	bpf_nv_gpu_set_interleave(task, is_critical() ? CRITICAL_LEVEL : OTHERS_LEVEL);
	return 0;
}

/* Only here does a policy learn the handles by which a task is preempted. */
SEC("struct_ops/on_timeslice_control")
int BPF_PROG(preempt_control, struct nv_gpu_timeslice_control_ctx *task)
{
	struct handles handles = { task->hclient, task->htsg };
	u32 at = known;

	if (is_critical() || at >= MOST_OTHERS)
		return 0;
	bpf_map_update_elem(&others, &at, &handles, BPF_ANY);
	known = at + 1;
	return 0;
}

SEC("uretprobe.s/libcuda.so.1:cuLaunchKernel")
int preempt_launched(struct pt_regs *registers)
{
	struct handles *handles;
	u32 at;

	if (!is_critical())
		return 0;
	launches += 1;
	for (u32 number = 0; number < MOST_OTHERS; number++) {
		at = number;
		handles = bpf_map_lookup_elem(&others, &at);
		if (handles && handles->tsg)
			bpf_nv_gpu_preempt_tsg(handles->client, handles->tsg);
	}
	return 0;
}

SEC(".struct_ops.link")
struct nv_gpu_sched_ops preempt = {
	.on_task_init = (void *)preempt_init,
	.on_timeslice_control = (void *)preempt_control,
};
