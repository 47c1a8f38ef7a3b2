/* Threads with awkward names burn CPU time in known functions, touch pages and call getppid. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void add(long turns)
{
	for (long turn = 0; turn < turns; turn++)
		sink += turn * turn;
}

__attribute__((noinline)) static void sum_all(long turns)
{
	add(turns);
	sink++;
}

__attribute__((noinline)) static void touch_pages(void)
{
	for (int turn = 0; turn < 50; turn++) {
		char *pages = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(pages, 1, 1 << 16);
		munmap(pages, 1 << 16);
	}
}

static void *work(void *name)
{
	prctl(PR_SET_NAME, name);
	sum_all(15000000);
	touch_pages();
	for (int turn = 0; turn < 20; turn++)
		getppid();
	return 0;
}

int main(void)
{
	static char names[][16] = {"#pool", "9 lives", "{group}", "pool 5", "dead", "a [0] 1.5: x:", "two  (spaces)"};
	pthread_t threads[sizeof(names) / sizeof(*names)];

	for (unsigned n = 0; n < sizeof(names) / sizeof(*names); n++)
		if (pthread_create(&threads[n], 0, work, names[n]))
			return 1;
	for (unsigned n = 0; n < sizeof(names) / sizeof(*names); n++)
		pthread_join(threads[n], 0);
	printf("threads %zu\n", sizeof(names) / sizeof(*names));
	return 0;
}
