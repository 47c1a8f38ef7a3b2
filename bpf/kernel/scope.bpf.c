/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the set of processes in scope while they fork: raw tracepoint sched_process_fork (parent, child). Every process id
 * is decided anew when it is given out, so one that had been in scope and is used again says nothing about its new owner.
 * A new thread's id is put in as well; nothing looks it up. A process that the tool starts is not in scope, and a thread
 * that it starts is one of its own.
 * Constant: AM_TASK_PID, the offset of `pid` in struct task_struct, from the kernel's BTF.
 */
AM_INLINE u32 am_pid_of(u64 task)
{
	u32 pid = 0;

	bpf_probe_read_kernel(&pid, sizeof(pid), (void *)(task + AM_TASK_PID));
	return pid;
}

AM_INLINE void am_decide(struct am_scope *set, u32 id, int in)
{
	u64 *word = &set->bits[(id & (AM_PIDS - 1)) >> 6], bit = 1ULL << (id & 63);

	if (in)
		__sync_fetch_and_or(word, bit);
	else
		__sync_fetch_and_and(word, ~bit);
}

AM_PROGRAM(am_scope_fork)(u64 *ctx)
{
	struct am_control *control = AM_VALUE(AM_CONTROL);
	u32 child = am_pid_of(ctx[1]);
	u64 parent = bpf_get_current_pid_tgid();

	am_decide(AM_VALUE(AM_SCOPE), child, am_in_tree(parent >> 32) && !am_is_tracer(parent >> 32, parent));
	am_decide(AM_VALUE(AM_OWN_THREADS), child, (u32)parent == control->starter);
	return 0;
}
