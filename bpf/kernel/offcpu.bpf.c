/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits: raw tracepoint sched_switch (preempt, previous task, next task, and from Linux 5.18 the previous task's state).
 * The task that stops is still the current one; the task that resumes is known only by its id, so everything to be
 * recorded about it is saved when it stops.
 * Interrupts are off here, so no other program that uses AM_CLASS_PERF for stacks can run on this CPU meanwhile.
 * Constants as in probe.bpf.c (AM_NAME, AM_TREE, AM_RECORDS, AM_SIZE, AM_RING_INDEX), and
 *   AM_POINT, AM_ROW  the probe point and its histogram
 *   AM_TASK_PID       offset of `pid` in struct task_struct
 *   AM_STATE_OF(ctx)  state of the task that stops
 *   AM_FILTER, AM_FILTER_END  conditions at the start and the end of a wait, if any
 *   AM_SHORTEST       minimum duration of recorded waits, ns
 *   AM_SAVE           statements that record the stacks, if any
 *   AM_PAYLOAD        statements that fill `payload` from `wait` and `duration`
 */
#define AM_WAIT_STATE (wait.state)
#define AM_WAIT_SYSCALL (wait.syscall)
#define AM_DURATION duration

AM_INLINE int am_wait_begins(u64 *ctx, u64 now)
{
	struct am_counters *counters = AM_VALUE(AM_COUNTERS);
	u64 pid_tgid = bpf_get_current_pid_tgid();
	u32 am_pid = pid_tgid >> 32, am_tid = pid_tgid, am_cpu = bpf_get_smp_processor_id();
	struct am_wait wait = {};
	char *am_comm = wait.comm;

	if (!am_tid) /* the idle task */
		return 0;
#if AM_TREE
	if (!am_in_tree(am_pid))
		return 0;
#endif
	if (am_is_tracer(am_pid, am_tid))
		return 0;
	wait.state = ctx[0] ? 0 : AM_STATE_OF(ctx);
	if (wait.state & AM_TASK_DEAD)
		return 0;
	wait.time = now;
	wait.pid = am_pid;
	wait.tid = am_tid;
	wait.cpu = am_cpu;
	bpf_get_current_comm(wait.comm, sizeof(wait.comm));
	am_read_call(&wait);
#ifdef AM_FILTER
	if (!(AM_FILTER))
		return 0;
#endif
#ifndef AM_FILTER_END
	am_count(&counters->hits[0][0], am_cpu, AM_POINT, 0);
#endif
#ifdef AM_SAVE
	AM_SAVE
#endif
	if (bpf_map_update_elem_(AM_MAP(AM_WAITS), &am_tid, &wait, BPF_NOEXIST)) {
		/* The table is full, or the end of the previous wait was not seen and this one replaces it. */
		am_count(&counters->unpaired[0][0], am_cpu, AM_POINT, 0);
		bpf_map_update_elem_(AM_MAP(AM_WAITS), &am_tid, &wait, BPF_EXIST);
	}
	return 0;
}

AM_INLINE int am_wait_ends(u64 *ctx, u64 now)
{
	struct am_counters *counters = AM_VALUE(AM_COUNTERS);
	u32 here = bpf_get_smp_processor_id();
	u32 am_tid = AM_READ_KERNEL(u32, ctx[2] + AM_TASK_PID);
	u32 am_pid, am_cpu;
	struct am_wait wait, *found;
	char *am_comm = wait.comm;
	u64 duration;

	if (!am_tid)
		return 0;
	found = bpf_map_lookup_elem_(AM_MAP(AM_WAITS), &am_tid);
	if (!found)
		return 0;
	wait = *found;
	bpf_map_delete_elem_(AM_MAP(AM_WAITS), &am_tid);
	am_pid = wait.pid;
	am_cpu = wait.cpu;
	duration = now - wait.time;
#ifdef AM_FILTER_END
	if (!(AM_FILTER_END))
		return 0;
	am_count(&counters->hits[0][0], here, AM_POINT, 0);
#endif
	am_measure(AM_ROW, duration);
#if AM_RECORDS
	struct am_control *control = AM_VALUE(AM_CONTROL);
	struct am_record *record;
	char *payload;

	if (!control->recording || duration < AM_SHORTEST)
		return 0;
	record = bpf_ringbuf_reserve((void *)AM_MAP(AM_RING + AM_RING_INDEX), AM_SIZE, 0);
	if (!record) {
		am_count(&counters->lost[0][0], here, AM_POINT, 0);
		return 0;
	}
	record->time = wait.time;
	record->pid = am_pid;
	record->tid = am_tid;
	record->point = AM_POINT;
	record->cpu = am_cpu;
	__builtin_memcpy(record->comm, wait.comm, sizeof(record->comm));
	payload = (char *)(record + 1);
	AM_PAYLOAD
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
#endif
	return 0;
}

AM_PROGRAM(AM_NAME)(u64 *ctx)
{
	u64 now = bpf_ktime_get_ns();

	if (!am_enabled())
		return 0;
	am_wait_begins(ctx, now);
	return am_wait_ends(ctx, now);
}

#undef AM_WAIT_STATE
#undef AM_WAIT_SYSCALL
#undef AM_DURATION
#undef AM_POINT
#undef AM_ROW
#undef AM_STATE_OF
#undef AM_FILTER_END
#undef AM_SHORTEST
#include "undef.inc.h"
