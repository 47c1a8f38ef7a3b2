/* SPDX-License-Identifier: Apache-2.0 */
/* Undefines the constants of one program, so that the next can be included. */
#undef AM_NAME
#undef AM_PART
#undef AM_OPEN
#undef AM_PID_TGID
#undef AM_ARGUMENTS
#undef AM_FIELDS
#undef AM_ATOMIC
#undef AM_TREE
#undef AM_OBJECT
#undef AM_CREATES
#undef AM_KERNEL_EVENTS
#undef AM_NEVER_TRACER
#undef AM_USES_COMM
#undef AM_FILTER
#undef AM_FRAME
#undef AM_NEVER_RETURNS
#undef AM_COUNT_AT_EXIT
#undef AM_SAVE
#undef AM_TIME
#undef AM_TOTAL
#undef AM_BY_THREAD
#undef AM_STACK_CLASS
#undef AM_RECORDS
#undef AM_SIZE
#undef AM_RING_INDEX
#undef AM_PAYLOAD
