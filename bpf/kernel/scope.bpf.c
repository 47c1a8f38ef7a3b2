/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the set of processes in scope while they fork: raw tracepoint sched_process_fork (parent, child). Every process id
 * is decided anew when it is given out, so one that had been in scope and is used again says nothing about its new owner.
 * A new thread's id is put in as well; nothing looks it up.
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
	u32 child = am_pid_of(ctx[1]);
	u64 bit = 1ULL << (child & 63);

	if (am_in_tree(bpf_get_current_pid_tgid() >> 32))
		__sync_fetch_and_or(am_scope_word(child), bit);
	else
		__sync_fetch_and_and(am_scope_word(child), ~bit);
	return 0;
}
