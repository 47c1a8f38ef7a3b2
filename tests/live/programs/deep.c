/* Calls getppid COUNT times from a function that has recursed DEPTH times; ends when its input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#define KEPT __attribute__((noinline))

static volatile long sum;

/* Without the C library, which does not keep frame pointers. */
KEPT void leaf(void)
{
	long parent;

	__asm__ volatile("syscall" : "=a"(parent) : "a"(SYS_getppid) : "rcx", "r11", "memory");
	sum += parent;
}

KEPT void again(int depth)
{
	if (depth)
		again(depth - 1);
	else
		leaf();
	sum++;
}

int main(int count, char **words)
{
	for (int i = 0; i < atoi(words[2]); i++)
		again(atoi(words[1]) - 1);
	puts("done");
	fflush(stdout);
	return getchar() == 0 || count == 0;
}
