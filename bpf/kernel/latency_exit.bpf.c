/* SPDX-License-Identifier: Apache-2.0 */
/* Return of a measured call. Constants as in probe.bpf.c and latency_entry.bpf.c. */
#define AM_SAVED(i) (started.saved[i])
#define AM_DURATION duration
#define AM_TIME (started.time)

#include "head.inc.h"
{
	struct am_counters *counters = AM_VALUE(AM_COUNTERS);
	u64 now = bpf_ktime_get_ns();
	struct am_started started, *found;
	struct am_call call = {};
	u64 pid_tgid, duration;
	u32 am_pid, am_tid, am_cpu, point;

#if AM_ATOMIC
	AM_KEEP_TASK_STACK
#endif
	if (!am_enabled())
		return 0;
	AM_OPEN
	point = (u16)cookie;
	pid_tgid = AM_PID_TGID;
	am_pid = pid_tgid >> 32;
	am_tid = pid_tgid;
#include "whose.inc.h"
	call.tid = am_tid;
#ifdef AM_FRAME
	call.frame = AM_FRAME;
	call.point = point;
#endif
	found = bpf_map_lookup_elem_(AM_MAP(AM_INFLIGHT), &call);
	if (!found)
		return 0;
	started = *found;
#ifdef AM_FRAME
	am_leave_function(&call);
#else
	bpf_map_delete_elem_(AM_MAP(AM_INFLIGHT), &call);
	if (started.point != point) /* a call whose return was not seen */
		return 0;
#endif
	duration = now - started.time;
	am_cpu = bpf_get_smp_processor_id();
#include "filter.inc.h"
#if AM_COUNT_AT_EXIT
	am_count(&counters->hits[0][0], am_cpu, point, AM_ATOMIC);
#endif
#ifdef AM_TOTAL
	if ((am_own || AM_KERNEL_EVENTS) && !(s32)AM_RETVAL)
		am_add(&counters->totals[0][0], am_cpu, point, AM_TOTAL, AM_ATOMIC);
#endif
	am_measure(cookie >> 16, duration);
#ifdef AM_BY_THREAD
	am_count_in_thread(am_pid, am_tid, point, duration);
#endif
#include "record.inc.h"
	return 0;
}

#undef AM_SAVED
#undef AM_DURATION
#include "undef.inc.h"
