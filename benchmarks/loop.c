/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The traced program: `loop getppid|function|task CALLS CHUNK FILE` makes CALLS system calls, calls of traced_function()
 * or ITT tasks, and writes to FILE: CLOCK_MONOTONIC ns before the first and after the last call, then the ns of each CHUNK of calls.
 * Chunks are short, so that most are not disturbed by other processes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
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

/* The ITT API as its static part calls it; see accel_magic/itt/collector.c. */
struct id {
	unsigned long long words[3];
};
struct domain {
	volatile int flags;
};

static struct domain *(*domain_create)(const char *);
static void *(*handle_create)(const char *);
static void (*task_begin)(const struct domain *, struct id, struct id, void *);
static void (*task_end)(const struct domain *);
static struct entry {
	const char *name;
	void **function, *first, *without;
	int group;
} entries[] = {
	{"__itt_domain_create", (void **)&domain_create, 0, 0, 0},
	{"__itt_string_handle_create", (void **)&handle_create, 0, 0, 0},
	{"__itt_task_begin", (void **)&task_begin, 0, 0, 0},
	{"__itt_task_end", (void **)&task_end, 0, 0, 0},
	{0, 0, 0, 0, 0},
};
static struct {
	unsigned char magic[8];
	unsigned long version[3];
	volatile long state[3];
	pthread_mutex_t mutex;
	void *library, *on_error;
	const char **paths;
	struct entry *entries;
} table = {.magic = {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30}, .entries = entries};

static struct domain *look_for_collector(void)
{
	const char *path = getenv("INTEL_LIBITTNOTIFY64");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	void (*init)(void *, int) = library ? (void (*)(void *, int))dlsym(library, "__itt_api_init") : NULL;

	if (init)
		init(&table, -1);
	if (path && !domain_create)
		exit(3); /* the collector that was to be measured is not there */
	return domain_create ? domain_create("bench") : NULL;
}

static void run_tasks(const struct domain *domain, void *handle, long calls)
{
	for (long call = 0; call < calls; call++) {
		if (domain && domain->flags)
			task_begin(domain, (struct id){{0}}, (struct id){{0}}, handle);
		if (domain && domain->flags)
			task_end(domain);
	}
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	int in_user_space = !strcmp(argv[1], "function"), tasks = !strcmp(argv[1], "task");
	struct domain *domain = tasks ? look_for_collector() : NULL;
	void *handle = domain ? handle_create("task") : NULL;
	long calls = atol(argv[2]), chunk = atol(argv[3]), chunks = calls / chunk;
	long long *times = calloc(chunks + 1, sizeof(*times));
	FILE *file = fopen(argv[4], "w");

	if (!file || !times)
		return 1;
	times[0] = now();
	for (long i = 1; i <= chunks; i++) {
		if (tasks)
			run_tasks(domain, handle, chunk);
		else if (in_user_space)
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
