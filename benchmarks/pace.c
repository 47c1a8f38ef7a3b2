/* Makes RATE system calls per second for SECONDS: pace RATE SECONDS. Prints their number. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int main(int count, char **words)
{
	long rate = atol(words[count - 2]), seconds = atol(words[count - 1]), burst = rate / 1000, calls = 0;
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long slot = 0; slot < seconds * 1000; slot++) {
		for (long each = 0; each < burst; each++)
			syscall(SYS_getppid);
		calls += burst;
		next.tv_nsec += 1000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	printf("%ld\n", calls);
	return 0;
}
