/* SPDX-License-Identifier: Apache-2.0 */
/* Part of a program: records the hit with the time AM_TIME. */
#if AM_RECORDS
	struct am_control *control = AM_VALUE(AM_CONTROL);
	struct am_record *record;
	char *payload;

	if (!control->recording || (!am_own && !AM_KERNEL_EVENTS))
		return 0;
	record = bpf_ringbuf_reserve((void *)AM_MAP(AM_RING + AM_RING_INDEX), AM_SIZE, 0);
	if (!record) {
		am_count(&counters->lost[0][0], am_cpu, point, AM_ATOMIC);
		return 0;
	}
	am_fill(record, AM_TIME, pid_tgid, am_cpu, point);
	if (am_nobody)
		((u64 *)record->comm)[0] = ((u64 *)record->comm)[1] = 0;
	payload = (char *)(record + 1);
	AM_PAYLOAD
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
#endif
