/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drops calls that can no longer return, so that they do not fill up the table of calls in progress: calls of a thread
 * that exits (raw tracepoint sched_process_exit) and of a program that is replaced by another (raw tracepoint
 * sched_process_exec: task, previous thread id, binary). They remain counted as hits and are reported as unfinished.
 *
 * A thread's system call is found by its key. Finding function calls requires a search of the whole table, which takes
 * about half a millisecond. The search is therefore deferred: an exit only records whose calls have ended, and when. Calls
 * of a new thread with the same id start after that time, so they are kept.
 * Constant: AM_MOST_OVER, the number of ended calls that may stay in the table.
 */
#if AM_FUNCTION_CALLS
#define AM_USER_FRAME(frame) (!((frame) >> 63))

/* Missing in BCC's header (Linux >= 5.13). */
static long (*am_for_each)(void *map, void *step, void *state, u64 flags) = (void *)164;
#define AM_FOR_EACH(map, name, number, state) am_for_each((void *)AM_MAP(map), AM_ADDRESS_OF(number), state, 0)

AM_SHARED(long, am_end_call)(void *map, struct am_call *key, struct am_started *started, void *unused)
{
	struct am_call call = *key;
	struct am_caller *caller = am_caller_of(call.tid);

	if (!call.frame || caller->tid != call.tid || started->time >= caller->until)
		return 0;
	if (caller->all || AM_USER_FRAME(call.frame))
		bpf_map_delete_elem_(AM_MAP(AM_INFLIGHT), &call);
	return 0;
}

AM_INLINE void am_sweep(struct am_callers *callers, u64 now)
{
	callers->swept = now;
	callers->over = 0;
	AM_FOR_EACH(AM_INFLIGHT, am_end_call, AM_DO_END_CALL, 0);
}

AM_INLINE void am_end_functions(u32 tid, u32 all)
{
	struct am_callers *callers = AM_VALUE(AM_CALLERS);
	struct am_caller *caller = am_caller_of(tid);
	s32 calls = caller->calls;
	u64 now;

	if (!calls)
		return;
	now = bpf_ktime_get_ns();
	if (caller->until > callers->swept && (caller->tid != tid || caller->all > all))
		am_sweep(callers, now); /* the slot is still needed for another thread */
	caller->calls = 0;
	caller->tid = tid;
	caller->all = all;
	caller->until = now;
	__sync_fetch_and_add(&callers->over, calls > 0 ? calls : 1);
	if (callers->over > AM_MOST_OVER)
		am_sweep(callers, now);
}
#else
#define am_end_functions(tid, all)
#endif

AM_PROGRAM(am_thread_ends)(u64 *ctx)
{
	struct am_call call = {.tid = bpf_get_current_pid_tgid()};

	bpf_map_delete_elem_(AM_MAP(AM_INFLIGHT), &call);
	am_end_functions(call.tid, 1);
	return 0;
}

AM_PROGRAM(am_program_ends)(u64 *ctx)
{
	struct am_call call = {.tid = ctx[1]};
	u32 tid = bpf_get_current_pid_tgid();
	struct am_started started, *found;

	/*
	 * If a thread other than the main one calls exec, it takes over the main thread's id. Its kernel functions in
	 * progress return with that id, and would not be found.
	 */
	am_end_functions(call.tid, call.tid != tid);
	if (call.tid == tid)
		return 0;
	found = bpf_map_lookup_elem_(AM_MAP(AM_INFLIGHT), &call);
	if (!found)
		return 0;
	started = *found;
	bpf_map_delete_elem_(AM_MAP(AM_INFLIGHT), &call);
	call.tid = tid;
	bpf_map_update_elem_(AM_MAP(AM_INFLIGHT), &call, &started, BPF_ANY);
	return 0;
}
