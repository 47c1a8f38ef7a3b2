/* Threads that compute: busy THREADS MILLISECONDS [CPU]. Each stops when it has had so much of a processor's time, by
 * its own clock; all on one CPU where that is given. Prints of each its id, its CPU time and when it began and ended. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long wanted, report[16][4];

static long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void *work(void *row)
{
	long *own = report[(long)row];

	own[0] = gettid();
	own[2] = now(CLOCK_MONOTONIC);
	while ((own[1] = now(CLOCK_THREAD_CPUTIME_ID)) < wanted)
		for (volatile int i = 0; i < 20000; i++)
			;
	own[3] = now(CLOCK_MONOTONIC);
	return 0;
}

int main(int count, char **values)
{
	int threads = count > 1 ? atoi(values[1]) : 1;
	pthread_t ids[16];
	cpu_set_t set;

	wanted = (count > 2 ? atol(values[2]) : 100) * 1000000L;
	if (count > 3) {
		CPU_ZERO(&set);
		CPU_SET(atoi(values[3]), &set);
		if (sched_setaffinity(0, sizeof(set), &set))
			return 1;
	}
	for (long i = 0; i < threads; i++)
		pthread_create(&ids[i], 0, work, (void *)i);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], 0);
	for (int i = 0; i < threads; i++)
		printf("tid %ld\ncpu_ns %ld\nstart_ns %ld\nend_ns %ld\n", report[i][0], report[i][1], report[i][2], report[i][3]);
	return 0;
}
