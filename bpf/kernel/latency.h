/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls in flight and their histograms. The buckets are those of accel_magic/kernel/buckets.py.
 * Constants defined before this header: AM_LATENCIES (power of two >= latency points), AM_SAVED_MAX (values kept).
 */
#ifndef ACCEL_MAGIC_LATENCY_H
#define ACCEL_MAGIC_LATENCY_H

#define AM_BUCKETS 640

struct am_histograms {
	u64 counts[AM_LATENCIES][AM_BUCKETS];
	u64 total[AM_LATENCIES];
	u64 max[AM_LATENCIES];
};

/*
 * A function call is identified by its thread, its point and its stack frame, so recursion and tail calls are paired
 * correctly, and a call that never returns (longjmp) does not affect the others. A thread makes one system call at a time:
 * the key of a system call has neither frame nor point, so the next call replaces one that did not return.
 */
struct am_call {
	u64 frame;
	u32 tid;
	u32 point;
};

struct am_started {
	u64 time;
	u64 point;
	u64 saved[AM_SAVED_MAX];
};

#if AM_FUNCTION_CALLS
#define AM_CALLER_SLOTS 8192 /* in step with accel_magic/kernel/attach/kernel_engine.py */
#define AM_ALREADY_THERE -17 /* EEXIST */

/* The calls of a thread, or of the few threads that share the slot: see ended.bpf.c. */
struct am_caller {
	u64 until;  /* calls of thread `tid` that started earlier have ended; 0: none have */
	u32 tid;
	u32 all;    /* 0: only calls of user-space functions have ended */
	s32 calls;  /* in the table */
	u32 reserved;
};

struct am_callers {
	struct am_caller slots[AM_CALLER_SLOTS];
	u64 swept; /* when ended calls were last removed from the table */
	u64 over;  /* calls that ended since then */
};

AM_INLINE struct am_caller *am_caller_of(u32 tid)
{
	struct am_callers *callers = AM_VALUE(AM_CALLERS);

	/* Threads with consecutive ids must not share a cache line. */
	return &callers->slots[tid * 0x9e3779b1U >> 19 & (AM_CALLER_SLOTS - 1)];
}

AM_INLINE long am_enter_function(struct am_call *call, struct am_started *started)
{
	long error = bpf_map_update_elem_(AM_MAP(AM_INFLIGHT), call, started, BPF_NOEXIST);

	if (!error)
		__sync_fetch_and_add(&am_caller_of(call->tid)->calls, 1);
	else if (error == AM_ALREADY_THERE) /* left by longjmp */
		error = bpf_map_update_elem_(AM_MAP(AM_INFLIGHT), call, started, BPF_EXIST);
	return error;
}

AM_INLINE void am_leave_function(struct am_call *call)
{
	if (!bpf_map_delete_elem_(AM_MAP(AM_INFLIGHT), call))
		__sync_fetch_and_add(&am_caller_of(call->tid)->calls, -1);
}
#endif

AM_INLINE u32 am_bucket(u64 value)
{
	u32 exponent = 0;
	u64 rest = value;

	if (value < 16)
		return value;
	if (value >> 43)
		return AM_BUCKETS - 1;
	if (rest >> 32) { exponent += 32; rest >>= 32; }
	if (rest >> 16) { exponent += 16; rest >>= 16; }
	if (rest >> 8) { exponent += 8; rest >>= 8; }
	if (rest >> 4) { exponent += 4; rest >>= 4; }
	if (rest >> 2) { exponent += 2; rest >>= 2; }
	if (rest >> 1) exponent += 1;
	return (exponent - 3) * 16 + ((value >> (exponent - 4)) & 15);
}

AM_INLINE void am_measure(u32 latency, u64 duration)
{
	struct am_histograms *histograms = AM_VALUE(AM_HISTOGRAMS);
	u32 row = latency & (AM_LATENCIES - 1);
	u64 bucket = am_bucket(duration);
	u64 *max = &histograms->max[row];
	u64 old;

	/* The compiler knows the bound and would remove the check; older verifiers need it. */
	asm volatile("" : "+r"(bucket));
	if (bucket >= AM_BUCKETS)
		return;
	__sync_fetch_and_add(&histograms->counts[row][bucket], 1);
	__sync_fetch_and_add(&histograms->total[row], duration);
#pragma unroll
	for (int i = 0; i < 4; i++) {
		old = *max;
		if (duration <= old || __sync_val_compare_and_swap(max, old, duration) == old)
			break;
	}
}

#endif
