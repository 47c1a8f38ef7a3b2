/* SPDX-License-Identifier: Apache-2.0 */
/* Part of a program: declares the variables of every hit, and returns if the hit is not in scope. */
	struct am_counters *counters = AM_VALUE(AM_COUNTERS);
	u64 pid_tgid;
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
#if AM_TREE == AM_OWN
	if (!am_in_tree(am_pid))
		return 0;
#elif AM_TREE == AM_OWN_AND_KERNEL
	if (!am_own && !am_nobody && !am_in_kernel_thread())
		return 0;
#ifdef AM_OBJECT
	if (!am_is_own_object(AM_OBJECT, am_own, AM_CREATES))
		return 0;
#endif
#endif
#if !AM_NEVER_TRACER
#if AM_TREE == AM_OWN /* helper processes are never in scope */
	if (am_is_tracing_thread(am_tid))
		return 0;
#else
	if (am_is_tracer(am_pid, am_tid))
		return 0;
#endif
#endif
	AM_ARGUMENTS
	am_cpu = bpf_get_smp_processor_id();
#include "filter.inc.h"
