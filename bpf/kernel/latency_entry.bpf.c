/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entry of a measured call. Constants as in probe.bpf.c, and
 *   AM_FRAME         what tells the call from others of its thread: its stack pointer, or 0
 *   AM_COUNT_AT_EXIT 1 when the filter needs the return
 *   AM_SAVE          statements that fill `started.saved`
 */
#include "head.inc.h"
{
#include "hit.inc.h"
	struct am_started started = {};
	struct am_call call = {};

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

#include "undef.inc.h"
