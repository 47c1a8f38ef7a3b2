/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates the set of processes in scope when they fork: raw tracepoint sched_process_fork (parent, child). Each process
 * id is decided when it is assigned, so a reused id does not inherit the scope of its previous owner.
 * Ids of new threads are added as well, but never looked up. A process started by the tool is not in scope, and a thread
 * started by the tool is marked as the tool's.
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
