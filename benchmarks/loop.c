/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traced program: `loop getppid|function CALLS CHUNK FILE` makes CALLS system calls or calls of traced_function(),
 * and writes to FILE: CLOCK_MONOTONIC ns before the first and after the last call, then the ns of each CHUNK of calls.
 * Chunks are short, so that most are not disturbed by other processes.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

__attribute__((noinline)) void traced_function(void)
{
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	int in_user_space = !strcmp(argv[1], "function");
	long calls = atol(argv[2]), chunk = atol(argv[3]), chunks = calls / chunk;
	long long *times = calloc(chunks + 1, sizeof(*times));
	FILE *file = fopen(argv[4], "w");

	if (!file || !times)
		return 1;
	times[0] = now();
	for (long i = 1; i <= chunks; i++) {
		if (in_user_space)
			for (long call = 0; call < chunk; call++)
				traced_function();
		else
			for (long call = 0; call < chunk; call++)
				syscall(SYS_getppid);
		times[i] = now();
	}
	fprintf(file, "%lld\n%lld\n", times[0], times[chunks]);
	for (long i = 1; i <= chunks; i++)
		fprintf(file, "%lld\n", times[i] - times[i - 1]);
	return fclose(file) != 0;
}
