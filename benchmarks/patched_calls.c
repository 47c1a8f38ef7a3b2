/* SPDX-License-Identifier: Apache-2.0 */
/* Functions to probe, called from a loop that is measured in chunks much shorter than a time slice. */
#include <stdint.h>
#include <time.h>

#define CALLED __attribute__((noinline, noipa, visibility("default")))

CALLED long begins_with_lea(long a, long b)
{
	__asm__ volatile("");
	return a + b;
}

CALLED long begins_with_mov(long a, long b)
{
	volatile long values[4] = {a, b};

	return values[0] + values[1];
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

/* The least time of a call, in thousandths of a ns. */
CALLED long least(long (*function)(long, long), long chunks, long calls)
{
	long found = INT64_MAX;

	for (long chunk = 0; chunk < chunks; chunk++) {
		uint64_t start = now();

		for (long at = 0; at < calls; at++)
			function(at, 1);
		start = (now() - start) * 1000 / (uint64_t)calls;
		if ((long)start < found)
			found = (long)start;
	}
	return found;
}

/* Calls a function at this rate, in calls per second, for so long; returns the number of calls. */
CALLED long at_rate(long (*function)(long, long), double rate, double seconds)
{
	uint64_t begin = now(), passed;
	long calls = 0;

	while ((passed = now() - begin) < (uint64_t)(seconds * 1e9))
		for (long due = (long)((double)passed * 1e-9 * rate), burst = 0; calls < due && burst < 10000; calls++, burst++)
			function(calls, 1);
	return calls;
}
