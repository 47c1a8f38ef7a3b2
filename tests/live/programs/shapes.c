/* Calls that are hard to pair with their returns: shapes recursion|tail|jump|threads|killed. Prints its counts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OPAQUE __attribute__((noinline, noclone, noipa))

static jmp_buf back;

OPAQUE long factorial(long n)
{
	volatile long below; /* volatile, so that the compiler does not turn it into a loop */

	usleep(1000);
	below = n <= 1 ? 1 : factorial(n - 1);
	return n * below;
}

OPAQUE long landing(long n)
{
	return n + 1;
}

OPAQUE long take_off(long n)
{
	__asm__ volatile("");
	return landing(n); /* a jump: compiled with -O2 */
}

OPAQUE void jumper(int away)
{
	if (away)
		longjmp(back, 1);
}

OPAQUE void dies(int leave)
{
	if (leave)
		syscall(SYS_exit, 0);
}

static void *thread_factorial(void *n)
{
	return (void *)factorial((long)n);
}

static void *thread_lands(void *n)
{
	return (void *)landing((long)n);
}

static void *thread_dies(void *unused)
{
	dies(0);
	dies(1);
	return unused;
}

int main(int count, char **values)
{
	const char *what = count > 1 ? values[1] : "";
	pthread_t ids[4];
	volatile long sum = 0;

	if (!strcmp(what, "recursion")) {
		for (long i = 0; i < 4; i++)
			pthread_create(&ids[i], 0, thread_factorial, (void *)(i + 5));
		for (int i = 0; i < 4; i++) {
			void *value;
			pthread_join(ids[i], &value);
			sum += (long)value;
		}
		printf("calls %d\nsum %ld\n", 5 + 6 + 7 + 8, sum);
	} else if (!strcmp(what, "tail")) {
		for (long i = 0; i < 200; i++)
			sum += take_off(i);
		for (long i = 0; i < 50; i++)
			sum += landing(i);
		printf("take_off 200\nlanding 250\nsum %ld\n", sum);
	} else if (!strcmp(what, "jump")) {
		volatile int returned = 0;
		for (volatile int i = 0; i < 300; i++)
			if (!setjmp(back)) {
				jumper(i % 3 == 0);
				returned++;
			}
		printf("calls 300\nreturned %d\n", returned);
	} else if (!strcmp(what, "threads")) {
		for (long i = 0; i < 20000; i++) {
			pthread_create(&ids[0], 0, thread_lands, (void *)i);
			pthread_join(ids[0], 0);
		}
		printf("calls 20000\n");
	} else if (!strcmp(what, "killed")) {
		for (int i = 0; i < 40; i++) {
			pthread_create(&ids[0], 0, thread_dies, 0);
			pthread_join(ids[0], 0);
		}
		printf("calls 80\nreturned 40\n");
	} else {
		return 2;
	}
	return 0;
}
