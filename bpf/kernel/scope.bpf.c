/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Updates the set of processes in scope when they fork: raw tracepoint sched_process_fork (parent, child). Each process
 * id is decided when it is assigned, so a reused id does not inherit the scope of its previous owner.
 * Ids of new threads are added as well, but never looked up. A process started by the tool is not in scope, and a thread
 * started by the tool is marked as the tool's.
 * Constants: AM_TASK_PID, the offset of `pid` in struct task_struct, from the kernel's BTF. For another user's trace,
 * AM_USER, that user's id, and AM_TASK_CRED, AM_CRED_*: offsets of the task's rights.
 */
AM_INLINE u32 am_word_at(u64 address)
{
	u32 word = 0;

	bpf_probe_read_kernel(&word, sizeof(word), (void *)address);
	return word;
}

#define am_pid_of(task) am_word_at((task) + AM_TASK_PID)

AM_INLINE void am_decide(struct am_ids *set, u32 id, int in)
{
	set->marks[id & (AM_PIDS - 1)] = in;
}

AM_PROGRAM(am_scope_fork)(u64 *ctx)
{
	struct am_control *control = AM_VALUE(AM_CONTROL);
	u32 child = am_pid_of(ctx[1]);
	u64 parent = bpf_get_current_pid_tgid();

	/* A process that is not dumpable has children that may be, once they execute another program. */
	am_decide(AM_VALUE(AM_SCOPE), child,
		  am_holds(AM_VALUE(AM_SCOPE), parent >> 32) && !am_is_tracer(parent >> 32, parent));
	am_decide(AM_VALUE(AM_OWN_THREADS), child, (u32)parent == control->starter);
	return 0;
}

#ifdef AM_USER
/*
 * A process leaves the scope when it executes a program that has other rights than the user (setuid, setgid, file
 * capabilities), before the program's first instruction. Processes that it starts are then not in scope either.
 */
AM_PROGRAM(am_scope_exec)(u64 *ctx)
{
	u64 rights = 0, capabilities = 0;
	u32 group;

	bpf_probe_read_kernel(&rights, sizeof(rights), (void *)(ctx[0] + AM_TASK_CRED));
	bpf_probe_read_kernel(&capabilities, sizeof(capabilities), (void *)(rights + AM_CRED_CAPABILITIES));
	group = am_word_at(rights + AM_CRED_GID);
	if (capabilities || am_word_at(rights + AM_CRED_UID) != AM_USER ||
	    am_word_at(rights + AM_CRED_EUID) != AM_USER || am_word_at(rights + AM_CRED_SUID) != AM_USER ||
	    am_word_at(rights + AM_CRED_EGID) != group || am_word_at(rights + AM_CRED_SGID) != group)
		am_decide(AM_VALUE(AM_SCOPE), bpf_get_current_pid_tgid() >> 32, 0);
	return 0;
}
#endif
