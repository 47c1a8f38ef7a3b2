/*
 * A family of processes that all call getppid and `step` N times: family N. The parent, a thread of it, a forked child,
 * a child that re-executes this program, and a grandchild that leaves the session and its parent (a daemon).
 * With `family N quiet` (used for the re-execution) a single process makes its calls. Prints `KIND PID` for each.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long each;

__attribute__((noinline, noclone)) void step(void)
{
	__asm__ volatile("");
}

static void *share(void *unused)
{
	for (long i = 0; i < each; i++) {
		syscall(SYS_getppid);
		step();
	}
	return unused;
}

int main(int count, char **values)
{
	pthread_t id;
	int ends[2];
	char byte;
	pid_t child;

	each = count > 1 ? atol(values[1]) : 1;
	share(0);
	if (count > 2)
		return 0;
	printf("parent %d\n", getpid());
	fflush(stdout);
	pthread_create(&id, 0, share, 0);
	pthread_join(id, 0);

	child = fork();
	if (!child) {
		share(0);
		_exit(0);
	}
	printf("forked %d\n", child);
	waitpid(child, 0, 0);

	child = fork();
	if (!child) {
		execl(values[0], values[0], values[1], "quiet", (char *)0);
		_exit(1);
	}
	printf("executed %d\n", child);
	waitpid(child, 0, 0);

	if (pipe(ends))
		return 1;
	child = fork();
	if (!child) {
		setsid();
		if (fork())
			_exit(0); /* the grandchild is reparented to init */
		close(ends[0]);
		usleep(20000); /* by then its parent has been reaped */
		share(0);
		_exit(0);
	}
	printf("intermediate %d\n", child);
	waitpid(child, 0, 0);
	close(ends[1]);
	read(ends[0], &byte, 1); /* the stream ends when the grandchild ends */
	return 0;
}
