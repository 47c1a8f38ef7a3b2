/* Calls getppid through known call chains, N times each, reports that it is done, and ends when its input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEPT __attribute__((noinline))

static volatile long sum;

/* Without the C library, which does not keep frame pointers. */
KEPT void leaf(void)
{
	long parent;

	__asm__ volatile("syscall" : "=a"(parent) : "a"(SYS_getppid) : "rcx", "r11", "memory");
	sum += parent;
}

KEPT void by_one(void)
{
	leaf();
	sum++;
}

KEPT void by_two(void)
{
	by_one();
	sum++;
}

int main(int count, char **words)
{
	int one = atoi(words[1]), two = atoi(words[2]);

	for (int i = 0; i < one; i++)
		by_one();
	for (int i = 0; i < two; i++)
		by_two();
	puts("done");
	fflush(stdout);
	return getchar() == 0 || count == 0;
}
