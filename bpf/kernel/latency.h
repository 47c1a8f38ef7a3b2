/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls in flight and their histograms. The buckets are those of accel_magic/traces/buckets.py.
 * Constants given before this header: AM_LATENCIES (power of two >= latency points), AM_SAVED_MAX (values kept).
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
 * A call is told from every other by its thread, its point and its stack frame, so recursion and tail calls pair up
 * rightly, and a call that never returns (longjmp, a killed thread) spoils no other.
 */
struct am_call {
	u64 frame;
	u32 tid;
	u32 point;
};

struct am_started {
	u64 time;
	u64 saved[AM_SAVED_MAX];
};

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

	/* The compiler knows the bound and would drop the test; older verifiers do not. */
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
