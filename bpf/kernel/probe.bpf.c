/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for any probe that stands alone: tracepoint, function entry, function return, USDT.
 * Included once for each program of a trace, with these constants:
 *   AM_NAME      the program's name
 *   AM_PART      defined where it is one part of a program
 *   AM_OPEN      statements that declare `cookie` (and leave where the hit is not ours)
 *   AM_PID_TGID  the process and the thread that hit it
 *   AM_ARGUMENTS statements that read what the fields lie in, where that is not the context itself
 *   AM_FIELDS    where the tracepoint's fields lie
 *   AM_ATOMIC    1 where a task can be preempted in the program (user-space probes)
 *   AM_TREE      1 to count only the processes in scope
 *   AM_NEVER_TRACER 1 where the tracer itself calls nothing that is probed: then a hit in an interrupt, which has
 *                borrowed the task that it stopped, is never taken for the tracer's
 *   AM_USES_COMM defined when the filter looks at the task's name
 *   AM_FILTER    the condition, where there is one
 *   AM_TOTAL     the value that is added up over all hits, where there is one
 *   AM_RECORDS   1 to record events; then
 *   AM_SIZE      bytes of a record, AM_RING_INDEX its ring, AM_PAYLOAD statements that fill `payload`
 */
#define AM_TIME bpf_ktime_get_ns()

#include "head.inc.h"
{
#include "hit.inc.h"
	am_count(&counters->hits[0][0], am_cpu, point, AM_ATOMIC);
#ifdef AM_TOTAL
	am_add(&counters->totals[0][0], am_cpu, point, AM_TOTAL, AM_ATOMIC);
#endif
#include "record.inc.h"
	return 0;
}

#include "undef.inc.h"
