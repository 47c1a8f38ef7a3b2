/* SPDX-License-Identifier: Apache-2.0 */
/* Return of a measured call. Constants as in probe.bpf.c and latency_entry.bpf.c. */
#define AM_SAVED(i) (started.saved[i])
#define AM_DURATION duration

AM_PROGRAM(AM_NAME)(void *ctx)
{
	struct am_counters *counters = AM_VALUE(AM_COUNTERS);
	u64 now = bpf_ktime_get_ns();
	struct am_started started, *found;
	struct am_call call = {};
	u64 pid_tgid, duration;
	u32 am_pid, am_tid, am_cpu, point;

	if (!am_enabled())
		return 0;
	AM_OPEN
	point = (u16)cookie;
	pid_tgid = bpf_get_current_pid_tgid();
	am_pid = pid_tgid >> 32;
	am_tid = pid_tgid;
	call.frame = AM_FRAME;
	call.tid = am_tid;
	call.point = point;
	found = bpf_map_lookup_elem_(AM_MAP(AM_INFLIGHT), &call);
	if (!found)
		return 0;
	started = *found;
	bpf_map_delete_elem_(AM_MAP(AM_INFLIGHT), &call);
	duration = now - started.time;
	am_cpu = bpf_get_smp_processor_id();
#ifdef AM_USES_COMM
	char am_comm[16] __attribute__((aligned(8))) = {};
	bpf_get_current_comm(am_comm, sizeof(am_comm));
#endif
#ifdef AM_FILTER
	if (!(AM_FILTER))
		return 0;
#endif
#if AM_COUNT_AT_EXIT
	am_count(&counters->hits[0][0], am_cpu, point, AM_ATOMIC);
#endif
	am_measure(cookie >> 16, duration);
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
	am_fill(record, started.time, pid_tgid, am_cpu, point);
	payload = (char *)(record + 1);
	AM_PAYLOAD
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
#endif
	return 0;
}

#undef AM_SAVED
#undef AM_DURATION
#undef AM_NAME
#undef AM_OPEN
#undef AM_FIELDS
#undef AM_ATOMIC
#undef AM_USES_COMM
#undef AM_FILTER
#undef AM_FRAME
#undef AM_COUNT_AT_EXIT
#undef AM_RECORDS
#undef AM_SIZE
#undef AM_RING_INDEX
#undef AM_PAYLOAD
