/*
 * Calls that never return: endings WHAT N [M]. Does WHAT N times, then M calls of landing(), which return. Prints counts.
 *   exit       a thread that calls exit inside leaves()
 *   exit_group a child that calls exit_group
 *   killed     a child that is killed while it waits in pause inside leaves()
 *   execute    re-executes this program inside leaves(), alternately from the main thread and from another one
 *   executeat  the same with execveat
 *   reused     a thread that calls exit inside leaves(), while a thread that reuses such a thread's id is inside stays()
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPAQUE __attribute__((noinline, noclone, noipa))

static char **arguments;
static char number[24];

OPAQUE long landing(long n)
{
	return n + 1;
}

OPAQUE void leaves(const char *what)
{
	if (!strcmp(what, "exit"))
		syscall(SYS_exit, 0);
	if (!strcmp(what, "killed"))
		for (;;)
			pause();
	if (!strcmp(what, "execute"))
		execv(arguments[0], arguments);
	if (!strcmp(what, "executeat"))
		syscall(SYS_execveat, AT_FDCWD, arguments[0], arguments, environ, 0);
}

static pid_t last;
static long reused;

static void *thread_notes(void *unused)
{
	last = gettid();
	leaves("exit");
	return unused;
}

OPAQUE void stays(long times)
{
	pthread_t id;

	for (long i = 0; i < times; i++) {
		pthread_create(&id, 0, thread_notes, 0);
		pthread_join(id, 0);
	}
}

static void *thread_stays(void *times)
{
	if (gettid() == last) {
		reused++;
		stays((long)times);
	}
	return times;
}

/* Reuses the id of an ended thread, unless another process gets it first. */
static void reuse(long times)
{
	for (int trial = 0; trial < 1000 && !reused; trial++) {
		pthread_t id;
		FILE *file;

		pthread_create(&id, 0, thread_notes, 0);
		pthread_join(id, 0);
		file = fopen("/proc/sys/kernel/ns_last_pid", "w");
		if (!file)
			return;
		fprintf(file, "%d", last - 1);
		fclose(file);
		pthread_create(&id, 0, thread_stays, (void *)times);
		pthread_join(id, 0);
	}
}

static void *thread_leaves(void *what)
{
	leaves(what);
	return what;
}

/* Whether a process is in pause (34). */
static int pauses(pid_t child)
{
	char path[64], text[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", child);
	file = fopen(path, "r");
	if (file) {
		fgets(text, sizeof(text), file);
		fclose(file);
	}
	return !strncmp(text, "34 ", 3);
}

int main(int count, char **values)
{
	const char *what = values[1];
	long times = atol(values[2]), more = count > 3 ? atol(values[3]) : 0;
	pthread_t id;
	pid_t child;

	arguments = values;
	if (!strncmp(what, "execute", 7) && times) {
		snprintf(number, sizeof(number), "%ld", times - 1);
		values[2] = number;
		if (times % 2)
			leaves(what);
		pthread_create(&id, 0, thread_leaves, (void *)what);
		pthread_join(id, 0);
		return 1;
	}
	if (!strcmp(what, "reused")) {
		reuse(times);
		times = 0;
	}
	for (long i = 0; i < times; i++) {
		if (!strcmp(what, "exit")) {
			pthread_create(&id, 0, thread_leaves, (void *)what);
			pthread_join(id, 0);
			continue;
		}
		child = !strcmp(what, "killed") ? fork() : vfork();
		if (!child) {
			if (!strcmp(what, "killed"))
				leaves(what);
			_exit(0);
		}
		if (!strcmp(what, "killed")) {
			while (!pauses(child))
				usleep(100);
			kill(child, SIGKILL);
		}
		waitpid(child, 0, 0);
	}
	for (long i = 0; i < more; i++)
		landing(i);
	for (long i = 0; i < more; i++)
		syscall(SYS_getppid);
	printf("landing %ld\nreused %ld\n", more, reused);
	return 0;
}
