/* SPDX-License-Identifier: Apache-2.0 */
/* Part of a program: declares the variables of every hit, and returns if the hit is not in scope. */
	struct am_counters *counters = AM_VALUE(AM_COUNTERS);
	u64 pid_tgid;
	u32 am_pid, am_tid, am_cpu, point;

	if (!am_enabled())
		return 0;
	AM_OPEN
	point = (u16)cookie;
	pid_tgid = AM_PID_TGID;
	am_pid = pid_tgid >> 32;
	am_tid = pid_tgid;
#if AM_TREE
	if (!am_in_tree(am_pid))
		return 0;
#endif
#if !AM_NEVER_TRACER
	if (am_is_tracer(am_pid, am_tid))
		return 0;
#endif
	AM_ARGUMENTS
	am_cpu = bpf_get_smp_processor_id();
#include "filter.inc.h"
