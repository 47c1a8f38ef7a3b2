/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `switches TRIPS`: two threads on one CPU pass a byte back and forth through pipes; every handover is a switch.
 * Prints ns per round trip (two switches).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];
static long trips;

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void *answer(void *unused)
{
	char byte;

	for (long i = 0; i < trips; i++)
		if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
			exit(1);
	return unused;
}

int main(int count, char **values)
{
	pthread_t thread;
	cpu_set_t one;
	char byte = 0;
	long start;

	trips = count > 1 ? atol(values[1]) : 1;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one) || pipe(there) || pipe(back))
		return 1;
	pthread_create(&thread, 0, answer, 0);
	start = now();
	for (long i = 0; i < trips; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return 1;
	printf("%ld\n", (now() - start) / trips);
	pthread_join(thread, 0);
	return 0;
}
