/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for any single-event probe: tracepoint, function entry, function return, USDT.
 * Included once per program of a trace, with these constants:
 *   AM_NAME      the program's name
 *   AM_PART      defined for one part of a program
 *   AM_OPEN      statements that declare `cookie` (and return if the hit is not traced)
 *   AM_PID_TGID  the process and thread of the hit
 *   AM_ARGUMENTS statements that read the record with the fields, unless that is the context itself
 *   AM_FIELDS    address of the tracepoint's fields
 *   AM_ATOMIC    1 if a task can be preempted in the program (user-space probes)
 *   AM_TREE      whose hits count: AM_EVERYBODY, AM_OWN (processes in scope), AM_OWN_AND_KERNEL
 *   AM_OBJECT    the object that the hit is about, if only those of processes in scope are traced; AM_CREATES: 1 if the
 *                hit creates it
 *   AM_KERNEL_EVENTS 1 to record the hits of AM_OWN_AND_KERNEL that are not the user's, too; 0 to only count them
 *   AM_NEVER_TRACER 1 if the tracer never calls the probed code: a hit in an interrupt, which has the id of the
 *                interrupted task, is then never attributed to the tracer
 *   AM_USES_COMM defined if the filter uses the task's name
 *   AM_FILTER    the condition, if any
 *   AM_TOTAL     the value to add up over all hits, if any
 *   AM_BY_THREAD defined if hits are also counted by thread
 *   AM_RECORDS   1 to record events; then
 *   AM_SIZE      bytes of a record, AM_RING_INDEX its ring, AM_PAYLOAD statements that fill `payload`
 */
#define AM_TIME bpf_ktime_get_ns()

#include "head.inc.h"
{
#include "hit.inc.h"
	am_count(&counters->hits[0][0], am_cpu, point, AM_ATOMIC);
#ifdef AM_BY_THREAD
	am_count_in_thread(am_pid, am_tid, point, 0);
#endif
#ifdef AM_TOTAL
	if (am_own || AM_KERNEL_EVENTS)
		am_add(&counters->totals[0][0], am_cpu, point, AM_TOTAL, AM_ATOMIC);
#endif
#include "record.inc.h"
	return 0;
}

#include "undef.inc.h"
