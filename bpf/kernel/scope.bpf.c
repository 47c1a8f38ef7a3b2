/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the set of processes in scope while they fork and end: raw tracepoints sched_process_fork (parent, child) and
 * sched_process_free (task). A new thread's id is put in as well; nothing looks it up, and it leaves with the thread.
 * Constant: AM_TASK_PID, the offset of `pid` in struct task_struct, from the kernel's BTF.
 */
AM_INLINE u32 am_pid_of(u64 task)
{
	u32 pid = 0;

	bpf_probe_read_kernel(&pid, sizeof(pid), (void *)(task + AM_TASK_PID));
	return pid;
}

AM_PROGRAM(am_scope_fork)(u64 *ctx)
{
	u32 child;

	if (!am_in_tree(bpf_get_current_pid_tgid() >> 32))
		return 0;
	child = am_pid_of(ctx[1]);
	__sync_fetch_and_or(am_scope_word(child), 1ULL << (child & 63));
	return 0;
}

AM_PROGRAM(am_scope_free)(u64 *ctx)
{
	u32 pid = am_pid_of(ctx[0]);

	__sync_fetch_and_and(am_scope_word(pid), ~(1ULL << (pid & 63)));
	return 0;
}
