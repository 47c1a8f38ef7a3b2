/*
 * A program that is built with the ITT API, as a library and as a program of its own. It counts its own tasks.
 * tasks THREADS COUNT: each thread runs COUNT times an outer task with two inner ones, and prints the number of tasks.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct id {
	unsigned long long words[3];
};
struct domain {
	volatile int flags;
	const char *name;
	void *wide;
	int extra;
	void *pointer;
	struct domain *next;
};
struct entry {
	const char *name;
	void **function;
	void *first, *without;
	int group;
};

static struct domain *(*domain_create)(const char *);
static void *(*handle_create)(const char *);
static void (*task_begin)(const struct domain *, struct id, struct id, void *);
static void (*task_end)(const struct domain *);

static struct entry entries[] = {
	{"__itt_domain_create", (void **)&domain_create, 0, 0, 0},
	{"__itt_string_handle_create", (void **)&handle_create, 0, 0, 0},
	{"__itt_task_begin", (void **)&task_begin, 0, 0, 0},
	{"__itt_task_end", (void **)&task_end, 0, 0, 0},
	{0, 0, 0, 0, 0},
};

static struct {
	unsigned char magic[8];
	unsigned long major, minor, build;
	volatile long initialized, mutex_initialized, counter;
	pthread_mutex_t mutex;
	void *library, *on_error;
	const char **paths;
	struct entry *entries;
} global = {.magic = {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30}, .major = 3, .entries = entries};

/* As the static part of the ITT API does at its first call. */
int look_for_collector(void)
{
	const char *path = getenv("INTEL_LIBITTNOTIFY64");
	void (*init)(void *, int) = NULL;

	if (!global.initialized && path && (global.library = dlopen(path, RTLD_LAZY)))
		init = (void (*)(void *, int))dlsym(global.library, "__itt_api_init");
	if (init)
		init(&global, -1);
	global.initialized = 1;
	return task_begin != NULL;
}

struct domain *make_domain(const char *name)
{
	return domain_create ? domain_create(name) : NULL;
}

void *make_handle(const char *name)
{
	return handle_create ? handle_create(name) : NULL;
}

void begin(const struct domain *domain, void *handle)
{
	if (domain && domain->flags)
		task_begin(domain, (struct id){{0}}, (struct id){{0}}, handle);
}

void end(const struct domain *domain)
{
	if (domain && domain->flags)
		task_end(domain);
}

struct work {
	long count;
};

static void *run(void *value)
{
	struct domain *outer = make_domain("test::outer"), *inner = make_domain("test::inner");
	void *whole = make_handle("whole"), *first = make_handle("first"), *second = make_handle("second part");

	for (long at = 0; at < ((struct work *)value)->count; at++) {
		begin(outer, whole);
		begin(inner, first);
		end(inner);
		begin(inner, second);
		end(inner);
		end(outer);
	}
	return NULL;
}

long work(int threads, long count)
{
	struct work what = {count};
	pthread_t *started = calloc((size_t)threads, sizeof *started);

	for (int at = 0; at < threads; at++)
		pthread_create(&started[at], NULL, run, &what);
	for (int at = 0; at < threads; at++)
		pthread_join(started[at], NULL);
	free(started);
	return 3 * threads * count;
}

/* The caller's own thread. */
void work_here(long count)
{
	run(&(struct work){count});
}

int main(int argc, char **argv)
{
	look_for_collector();
	if (argc > 2)
		printf("%ld\n", work(atoi(argv[1]), atol(argv[2])));
	fflush(stdout);
	if (argc > 3) {
		begin(make_domain("test::outer"), make_handle("endless"));
		puts("endless");
		fflush(stdout);
		pause();
	}
	return 0;
}
