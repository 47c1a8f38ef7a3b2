/*
 * Calls of one function on one processor, by threads that interrupt each other: `preempted_calls CALLS`.
 *
 * The last thread has a real-time priority and wakes up often, wherever another thread is just then. Each call is passed
 * the id of its thread, and returns it. Prints the calls of each thread as JSON.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3
#define PAUSE_NS 20000

static int running = THREADS - 1;
static long calls, made[THREADS], ids[THREADS];

__attribute__((noinline)) long whose(long thread)
{
	__asm__ volatile("" : "+r"(thread));
	return thread;
}

static void *work(void *argument)
{
	long number = (long)argument, id = syscall(SYS_gettid);
	int urgent = number == THREADS - 1;
	struct sched_param priority = {.sched_priority = 10};
	struct timespec pause = {.tv_nsec = PAUSE_NS};

	if (urgent && pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority))
		exit(2);
	ids[number] = id;
	while (urgent ? __atomic_load_n(&running, __ATOMIC_RELAXED) : made[number] < calls) {
		if (whose(id) != id)
			exit(3);
		made[number]++;
		if (urgent)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
	if (!urgent)
		__atomic_fetch_sub(&running, 1, __ATOMIC_RELAXED);
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t threads[THREADS];
	cpu_set_t one;

	if (count != 2 || (calls = atol(arguments[1])) < 1)
		return 1;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return 2;
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			return 2;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("{");
	for (int i = 0; i < THREADS; i++)
		printf("%s\"%ld\": %ld", i ? ", " : "", ids[i], made[i]);
	printf("}\n");
	return 0;
}
