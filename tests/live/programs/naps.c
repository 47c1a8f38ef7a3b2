/* Sleeps of known duration: naps THREADS N MICROSECONDS. Measures each call itself and prints the nanoseconds. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long each, length, measured[16][1000];

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

__attribute__((noinline)) long nap(long microseconds)
{
	struct timespec time = { microseconds / 1000000, microseconds % 1000000 * 1000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0);
	return microseconds;
}

static void *work(void *row)
{
	for (long i = 0; i < each; i++) {
		long start = now();
		nap(length * (i % 4 + 1));
		measured[(long)row][i] = now() - start;
	}
	return 0;
}

int main(int count, char **values)
{
	pthread_t ids[16];
	int threads = count > 1 ? atoi(values[1]) : 1;

	each = count > 2 ? atol(values[2]) : 1;
	length = count > 3 ? atol(values[3]) : 1000;
	for (long i = 0; i < threads; i++)
		pthread_create(&ids[i], 0, work, (void *)i);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], 0);
	for (int row = 0; row < threads; row++)
		for (int i = 0; i < each; i++)
			printf("nap %ld\n", measured[row][i]);
	return 0;
}
