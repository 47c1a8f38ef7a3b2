/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for any probe that stands alone: tracepoint, function entry, function return, USDT.
 * Included once for each program of a trace, with these constants:
 *   AM_NAME      the program's name
 *   AM_OPEN      statements that declare `cookie` (and leave where the hit is not ours)
 *   AM_ARGUMENTS statements that read what the fields lie in, where that is not the context itself
 *   AM_FIELDS    where the tracepoint's fields lie
 *   AM_ATOMIC    1 where a task can be preempted in the program (user-space probes)
 *   AM_TREE      1 to count only the processes in scope
 *   AM_USES_COMM defined when the filter looks at the task's name
 *   AM_FILTER    the condition, where there is one
 *   AM_RECORDS   1 to record events; then
 *   AM_SIZE      bytes of a record, AM_RING_INDEX its ring, AM_PAYLOAD statements that fill `payload`
 */
AM_PROGRAM(AM_NAME)(void *ctx)
{
	struct am_counters *counters = AM_VALUE(AM_COUNTERS);
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
	am_count(&counters->hits[0][0], am_cpu, point, AM_ATOMIC);
#if AM_RECORDS
	struct am_control *control = AM_VALUE(AM_CONTROL);
	struct am_record *record;
	char *payload;

	if (!control->recording)
		return 0;
	record = bpf_ringbuf_reserve((void *)AM_MAP(AM_RING + AM_RING_INDEX), AM_SIZE, 0);
	if (!record) {
		am_count(&counters->lost[0][0], am_cpu, point, AM_ATOMIC);
		return 0;
	}
	am_fill(record, bpf_ktime_get_ns(), pid_tgid, am_cpu, point);
	payload = (char *)(record + 1);
	AM_PAYLOAD
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
#endif
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
#undef AM_RECORDS
#undef AM_SIZE
#undef AM_RING_INDEX
#undef AM_PAYLOAD
