/*
 * System calls through every entry available to 64-bit code: compat COUNT. Makes each of these COUNT times:
 *   int $0x80 with 64, the 32-bit getppid (64 is semget among the 64-bit calls); with 162, the 32-bit nanosleep (sync)
 *   syscall with 64 and the x32 bit: x32's semget, or not a valid call
 *   syscall with 64 (semget), then the same with garbage in the upper half of rax, which the kernel ignores
 * Prints its counts: `entry64` is the number of 64-bit semget calls.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define X32 0x40000000L
#define GARBAGE (1L << 32)

static long call(long number)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(0L), "S"(0L), "d"(0L)
			 : "rcx", "r11", "memory");
	return result;
}

static long call_32(int number, void *first)
{
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"((long)number), "b"(first), "c"(0L), "d"(0L)
			 : "r8", "r9", "r10", "r11", "memory");
	return result;
}

int main(int count, char **values)
{
	long each = count > 1 ? atol(values[1]) : 1, parents = 0, naps = 0, made = 0;
	/* A 32-bit call takes 32-bit addresses. */
	int *nap = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	if (nap == MAP_FAILED)
		return 1;
	nap[1] = 1000000; /* ns */
	for (long i = 0; i < each; i++) {
		parents += call_32(64, 0) == getppid();
		naps += call_32(162, nap) == 0;
		call(X32 | 64);
		made += call(64) < 0;
		made += call(GARBAGE | 64) < 0;
	}
	printf("entry32 %ld\nnaps32 %ld\nentry64 %ld\npid %d\n", parents, naps, made, getpid());
	return 0;
}
