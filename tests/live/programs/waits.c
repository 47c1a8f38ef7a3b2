/* One wait of each kind, one after another, in the main thread. Prints its own clock in nanoseconds around each; and
 * the main thread's total run time and waiting time for a CPU according to the kernel's scheduler. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static int pipe_ends[2], faults;
static char *page;

static long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void nap(long milliseconds)
{
	struct timespec time = { 0, milliseconds * 1000000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, 0);
}

static void *hold_lock(void *unused)
{
	pthread_mutex_lock(&mutex);
	pthread_barrier_wait(&barrier);
	nap(60);
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void *write_late(void *unused)
{
	nap(50);
	return write(pipe_ends[1], "x", 1) == 1 ? unused : 0;
}

static void *fill_page(void *unused)
{
	struct uffdio_zeropage zero = { .range = { (unsigned long)page, 4096 } };
	struct uffd_msg message;

	if (read(faults, &message, sizeof(message)) != sizeof(message))
		return 0;
	nap(45);
	ioctl(faults, UFFDIO_ZEROPAGE, &zero);
	return unused;
}

static int watch_faults(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register all = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	faults = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	all.range.start = (unsigned long)page;
	all.range.len = 4096;
	return faults >= 0 && !ioctl(faults, UFFDIO_API, &api) && !ioctl(faults, UFFDIO_REGISTER, &all);
}

int main(int count, char **values)
{
	struct flock whole = { .l_type = F_WRLCK };
	int file = open(count > 1 ? values[1] : "/dev/null", O_RDWR | O_CREAT, 0600);
	struct pollfd nothing = { -1, POLLIN, 0 };
	pthread_t thread;
	long start, ran, delayed;
	FILE *schedstat;
	pid_t child;

	pthread_barrier_init(&barrier, 0, 2);
	if (pipe(pipe_ends))
		return 1;

	start = now();
	for (int i = 0; i < 3; i++)
		nap(20);
	printf("sleep %ld\n", now() - start);

	pthread_create(&thread, 0, hold_lock, 0);
	pthread_barrier_wait(&barrier);
	start = now();
	pthread_mutex_lock(&mutex);
	printf("lock %ld\n", now() - start);
	pthread_join(thread, 0);

	pthread_create(&thread, 0, write_late, 0);
	start = now();
	if (read(pipe_ends[0], &(char){ 0 }, 1) != 1)
		return 1;
	printf("read %ld\n", now() - start);
	pthread_join(thread, 0);

	start = now();
	poll(&nothing, 1, 40);
	printf("poll %ld\n", now() - start);

	child = fork();
	if (!child) {
		nap(35);
		_exit(0);
	}
	start = now();
	waitpid(child, 0, 0);
	printf("child %ld\n", now() - start);

	child = fork();
	if (!child) {
		fcntl(file, F_SETLK, &whole);
		if (write(pipe_ends[1], "x", 1) != 1)
			_exit(1);
		nap(55);
		_exit(0);
	}
	if (read(pipe_ends[0], &(char){ 0 }, 1) != 1)
		return 1;
	start = now();
	fcntl(file, F_SETLKW, &whole);
	printf("file_lock %ld\n", now() - start);
	waitpid(child, 0, 0);

	if (watch_faults()) {
		pthread_create(&thread, 0, fill_page, 0);
		start = now();
		*(volatile char *)page;
		printf("fault %ld\n", now() - start);
		pthread_join(thread, 0);
	}
	schedstat = fopen("/proc/thread-self/schedstat", "r");
	if (!schedstat || fscanf(schedstat, "%ld %ld", &ran, &delayed) != 2)
		return 1;
	printf("pid %d\nran %ld\ndelayed %ld\n", getpid(), ran, delayed);
	return 0;
}
