/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry of a measured call. Constants as in probe.bpf.c, and
 *   AM_FRAME         what tells the call from others of its thread: its stack pointer, or 0
 *   AM_COUNT_AT_EXIT 1 when the filter needs the return
 *   AM_SAVE          statements that fill `started.saved`
 */
AM_PROGRAM(AM_NAME)(void *ctx)
{
	struct am_counters *counters = AM_VALUE(AM_COUNTERS);
	struct am_started started = {};
	struct am_call call = {};
	u64 pid_tgid;
	u32 am_pid, am_tid, am_cpu, point;

	if (!am_enabled())
		return 0;
	AM_OPEN
	point = (u16)cookie;
	pid_tgid = bpf_get_current_pid_tgid();
	am_pid = pid_tgid >> 32;
	am_tid = pid_tgid;
#if AM_TREE
	if (!am_in_tree(am_pid))
		return 0;
#endif
	if (am_is_tracer(am_pid, am_tid))
		return 0;
	AM_ARGUMENTS
	am_cpu = bpf_get_smp_processor_id();
#ifdef AM_USES_COMM
	char am_comm[16] __attribute__((aligned(8))) = {};
	bpf_get_current_comm(am_comm, sizeof(am_comm));
#endif
#ifdef AM_FILTER
	if (!(AM_FILTER))
		return 0;
#endif
#if !AM_COUNT_AT_EXIT
	am_count(&counters->hits[0][0], am_cpu, point, AM_ATOMIC);
#endif
	call.frame = AM_FRAME;
	call.tid = am_tid;
	call.point = point;
	AM_SAVE
	started.time = bpf_ktime_get_ns();
	if (bpf_map_update_elem_(AM_MAP(AM_INFLIGHT), &call, &started, BPF_ANY))
		am_count(&counters->unpaired[0][0], am_cpu, point, AM_ATOMIC);
	return 0;
}

#undef AM_NAME
#undef AM_OPEN
#undef AM_ARGUMENTS
#undef AM_FIELDS
#undef AM_ATOMIC
#undef AM_TREE
#undef AM_USES_COMM
#undef AM_FILTER
#undef AM_FRAME
#undef AM_COUNT_AT_EXIT
#undef AM_SAVE
