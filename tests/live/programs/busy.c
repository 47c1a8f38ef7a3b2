/* Threads that compute: busy THREADS MILLISECONDS [CPU]. Each stops after this much CPU time by its own clock; all run on
 * CPU if given. Prints for each thread its id, CPU time, start and end, and the scheduler's counts meanwhile: switches
 * away from it, and how long it waited for a CPU. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static long wanted, report[16][6];

static long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static long delay(void)
{
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	long waited = -1;

	if (!file || fscanf(file, "%*d %ld", &waited) != 1)
		waited = -1;
	if (file)
		fclose(file);
	return waited;
}

static void *work(void *row)
{
	long *own = report[(long)row], away, waited;

	own[0] = gettid();
	do { /* all three values are from the same time slice */
		away = switches();
		waited = delay();
		own[2] = now(CLOCK_MONOTONIC);
	} while (switches() != away);
	while ((own[1] = now(CLOCK_THREAD_CPUTIME_ID)) < wanted)
		for (volatile int i = 0; i < 20000; i++)
			;
	do {
		own[4] = switches() - away;
		own[3] = now(CLOCK_MONOTONIC);
		own[5] = delay() - waited;
	} while (switches() - away != own[4]);
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
		printf("tid %ld\ncpu_ns %ld\nstart_ns %ld\nend_ns %ld\nswitches %ld\ndelay_ns %ld\n", report[i][0], report[i][1],
		       report[i][2], report[i][3], report[i][4], report[i][5]);
	return 0;
}
