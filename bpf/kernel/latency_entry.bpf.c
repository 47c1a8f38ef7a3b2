/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry of a measured call. Constants as in probe.bpf.c, and
 *   AM_FRAME         for functions: the stack pointer, which differs among the calls of a thread; else not defined
 *   AM_NEVER_RETURNS defined for functions that do not return: calls are counted, but not added to the table
 *   AM_COUNT_AT_EXIT 1 if the filter needs the return
 *   AM_SAVE          statements that fill `started.saved`
 */
#include "head.inc.h"
{
#include "hit.inc.h"
#if !AM_COUNT_AT_EXIT
	am_count(&counters->hits[0][0], am_cpu, point, AM_ATOMIC);
#endif
#ifndef AM_NEVER_RETURNS
	struct am_started started = {.point = point};
	struct am_call call = {.tid = am_tid};
	long error;

	AM_SAVE
	started.time = bpf_ktime_get_ns();
#ifdef AM_FRAME
	call.frame = AM_FRAME;
	call.point = point;
	error = am_enter_function(&call, &started);
#else
	error = bpf_map_update_elem_(AM_MAP(AM_INFLIGHT), &call, &started, BPF_ANY);
#endif
	if (error)
		am_count(&counters->unpaired[0][0], am_cpu, point, AM_ATOMIC);
#endif
	return 0;
}

#include "undef.inc.h"
