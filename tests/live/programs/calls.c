/* Calls functions and a system call an exact number of times on several threads: calls THREADS N. Prints its own counts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long leaves, others, calls;
long locks;
static long each;

__attribute__((noinline)) long leaf(int32_t number, uint64_t large, const char *text)
{
	__asm__ volatile("nop"); /* a probe cannot be set on the locked instruction that follows */
	atomic_fetch_add(&leaves, 1);
	__asm__ volatile("" ::"r"(text), "r"(large));
	return -number;
}

__attribute__((noinline)) void leaf_other(void)
{
	__asm__ volatile("nop");
	atomic_fetch_add(&others, 1);
}

/* Starts with a locked instruction. */
__attribute__((noinline, naked)) void locked(void)
{
	__asm__("lock addq $1, %0\n\tret" : "+m"(locks));
}

__attribute__((noinline)) void unrelated(void)
{
	__asm__ volatile("");
}

static const volatile char even[] = "even", odd[] = "odd";

static void *work(void *unused)
{
	/* BPF programs can read only memory that is already present. */
	volatile char touched = even[0] + odd[0];

	(void)touched;
	for (long i = 0; i < each; i++) {
		leaf((int32_t)(i - 5), (1ULL << 40) + i, (const char *)(i % 2 ? odd : even));
		if (i % 10 == 0)
			leaf_other();
		unrelated();
		locked();
		syscall(SYS_getppid);
		atomic_fetch_add(&calls, 1);
	}
	return unused;
}

int main(int count, char **values)
{
	int threads = count > 1 ? atoi(values[1]) : 1;
	pthread_t ids[64];

	each = count > 2 ? atol(values[2]) : 100;
	for (int i = 0; i < threads; i++)
		pthread_create(&ids[i], 0, work, 0);
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], 0);
	printf("leaf %ld\nleaf_other %ld\ngetppid %ld\npid %d\n", leaves, others, calls, getpid());
	return 0;
}
