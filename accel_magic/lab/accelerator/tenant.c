// A tenant of the lab's accelerator: a process with a name of its own, which submits jobs at given times.
//
// Usage: tenant NODE NAME MICROSECONDS    (the time slice that it asks for; 0 for none)
//
// It writes its struct accel_lab_task, and then serves requests from standard input until that ends: struct request with
// times at which jobs come. The answer is the number of records, those that were lost, and a struct accel_lab_job each; the
// cookie is the number of the job, from 1.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

enum { MOST = 16384, DRAIN_S = 60 };

struct request {
	__u64 end_ns; // nothing is submitted from then on; times are those of CLOCK_MONOTONIC
	__u64 work_us;
	__u64 again; // whether the next job comes when the last has ended
	__u64 count; // of times that follow
};

static struct accel_lab_job records[MOST];
static int node;
static __u32 fence;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void call(unsigned long number, void *argument, const char *what)
{
	while (ioctl(node, number, argument))
		if (errno != EINTR)
			fail(what);
}

static void send(const void *data, size_t size)
{
	if (fwrite(data, size, 1, stdout) != 1 || fflush(stdout))
		fail("cannot answer");
}

static __u64 now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void sleep_until(__u64 ns)
{
	struct timespec time = { ns / 1000000000, ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

static void submit(const struct request *request, __u64 cookie)
{
	struct accel_lab_submit job = {
		.ring = ACCEL_LAB_SHARED,
		.priority = ACCEL_LAB_NORMAL,
		.duration_us = request->work_us,
		.signal = fence,
		.cookie = cookie,
	};

	while (cuLaunchKernel(node, &job))
		if (errno != EINTR)
			fail("cannot submit a job");
}

static void wait_for_jobs(void)
{
	struct syncobj_wait wait = {
		.handles = (__u64)(unsigned long)&fence,
		.until_ns = now_ns() + DRAIN_S * 1000000000ull,
		.count = 1,
	};

	call(DRM_IOCTL_SYNCOBJ_WAIT, &wait, "jobs do not end");
}

static void run(const struct request *request, const __u64 *times)
{
	__u64 cookie = 0, at;

	for (at = 0; at < request->count; at++) {
		sleep_until(times[at]);
		submit(request, ++cookie);
	}
	while (request->again && cookie) {
		wait_for_jobs();
		if (now_ns() >= request->end_ns)
			break;
		submit(request, ++cookie);
	}
	if (cookie)
		wait_for_jobs();
}

static void answer(void)
{
	struct accel_lab_take take = { .records = (__u64)(unsigned long)records, .count = MOST };
	__u64 head[2];

	call(DRM_IOCTL_ACCEL_LAB_JOBS, &take, "cannot read records");
	head[0] = take.taken;
	head[1] = take.lost;
	send(head, sizeof(head));
	if (take.taken)
		send(records, take.taken * sizeof(*records));
}

static void make_task(__u64 asks_us)
{
	struct accel_lab_timeslice timeslice = { asks_us };
	struct syncobj created = {};
	struct accel_lab_task task;

	if (asks_us && ioctl(node, DRM_IOCTL_ACCEL_LAB_TIMESLICE, &timeslice) && errno != EINVAL)
		fail("cannot ask for a time slice");
	call(DRM_IOCTL_SYNCOBJ_CREATE, &created, "cannot create a fence");
	fence = created.handle;
	call(DRM_IOCTL_ACCEL_LAB_TASK, &task, "cannot read the task");
	send(&task, sizeof(task));
}

int main(int count, char **arguments)
{
	struct request request;

	if (count != 4)
		return 2;
	prctl(PR_SET_NAME, arguments[2]);
	prctl(PR_SET_TIMERSLACK, 1);
	node = open(arguments[1], O_RDWR | O_CLOEXEC);
	if (node < 0)
		fail(arguments[1]);
	make_task(strtoull(arguments[3], NULL, 10));
	while (fread(&request, sizeof(request), 1, stdin) == 1) {
		__u64 *times = calloc(request.count + 1, sizeof(*times));

		if (!times || fread(times, sizeof(*times), request.count, stdin) != request.count)
			fail("no times");
		run(&request, times);
		free(times);
		answer();
	}
	return 0;
}
