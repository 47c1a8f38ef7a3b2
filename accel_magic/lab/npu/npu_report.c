/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the result of the load as text or JSON. accel_magic/lab/npu/loads.py prints and reads the same JSON. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npu_load.h"

static const char *const errnos[ERRNOS] = {
	[EPERM] = "EPERM", [ENOENT] = "ENOENT", [EINTR] = "EINTR", [EIO] = "EIO",
	[ENXIO] = "ENXIO", [E2BIG] = "E2BIG", [EBADF] = "EBADF", [EAGAIN] = "EAGAIN",
	[ENOMEM] = "ENOMEM", [EACCES] = "EACCES", [EFAULT] = "EFAULT", [EBUSY] = "EBUSY",
	[EEXIST] = "EEXIST", [ENODEV] = "ENODEV", [EINVAL] = "EINVAL", [ENFILE] = "ENFILE",
	[EMFILE] = "EMFILE", [ENOTTY] = "ENOTTY", [EFBIG] = "EFBIG", [ENOSPC] = "ENOSPC",
	[ERANGE] = "ERANGE", [EDEADLK] = "EDEADLK", [ENOSYS] = "ENOSYS", [ETIME] = "ETIME",
	[EPROTO] = "EPROTO", [EBADFD] = "EBADFD", [EOVERFLOW] = "EOVERFLOW", [ESHUTDOWN] = "ESHUTDOWN",
	[ETIMEDOUT] = "ETIMEDOUT", [ECONNRESET] = "ECONNRESET", [EALREADY] = "EALREADY", [EINPROGRESS] = "EINPROGRESS",
	[ESTALE] = "ESTALE", [ECANCELED] = "ECANCELED",
};

/* Jobs by state, and the latencies (ns) of those that succeeded. */
struct outcome {
	long long by_state[TIMED_OUT + 1], faulty;
	uint64_t mean, median, most;
};

static const char *errno_name(int error)
{
	static char number[16];

	if (errnos[error])
		return errnos[error];
	snprintf(number, sizeof(number), "E%d", error);
	return number;
}

static uint64_t total(enum call which, int error)
{
	uint64_t sum = 0;

	for (long long i = 0; i < options.processes * options.threads; i++)
		sum += shared->workers[i].counts[which][error];
	return sum;
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static struct outcome summarize_jobs(void)
{
	struct outcome outcome = { 0 };
	uint64_t *latencies = calloc(options.jobs, sizeof(*latencies)), sum = 0;
	long long count = 0;

	if (!latencies) {
		perror("npu_load: out of memory");
		exit(3);
	}
	for (long long i = 0; i < options.jobs; i++) {
		outcome.by_state[jobs[i].state]++;
		outcome.faulty += jobs[i].state != NOT_RUN && is_faulty(i + 1);
		if (jobs[i].state == OK) {
			latencies[count++] = jobs[i].latency_ns;
			sum += jobs[i].latency_ns;
		}
	}
	if (count) {
		qsort(latencies, count, sizeof(*latencies), compare);
		outcome.mean = sum / count;
		outcome.median = latencies[(count - 1) / 2];
		outcome.most = latencies[count - 1];
	}
	free(latencies);
	return outcome;
}

static void print_string(const char *text)
{
	putchar('"');
	for (; *text; text++)
		if ((unsigned char)*text < ' ')
			printf("\\u%04x", *text);
		else
			printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	putchar('"');
}

/* Print the statuses that the driver reported for jobs that ended, each with its number of jobs. */
static void print_statuses(void)
{
	const char *comma = "";

	for (uint64_t status = 0, next; status <= UINT32_MAX; status = next) {
		long long count = 0;

		next = UINT64_MAX;
		for (long long i = 0; i < options.jobs; i++) {
			if (!jobs[i].ended)
				continue;
			count += jobs[i].status == status;
			if (jobs[i].status > status && jobs[i].status < next)
				next = jobs[i].status;
		}
		if (count) {
			printf("%s\"%" PRIu64 "\": %lld", comma, status, count);
			comma = ", ";
		}
	}
}

static void print_failures(enum call which)
{
	const char *comma = "";

	for (int error = 1; error < ERRNOS; error++)
		if (total(which, error)) {
			printf("%s\"%s\": %" PRIu64, comma, errno_name(error), total(which, error));
			comma = ", ";
		}
}

static void print_json(const struct outcome *outcome, int64_t duration_ns, int killed)
{
	printf("{\"device\": ");
	print_string(options.device);
	printf(", \"submit\": \"%s\", \"processes\": %lld, \"threads\": %lld, \"buffers\": %lld, \"size\": %lld, ",
	       submits[shared->submit], options.processes, options.threads, options.buffers, options.size);
	printf("\"priority\": \"%s\", \"rate\": %g, \"timeout\": %g, ", priorities[options.priority], options.rate,
	       options.timeout);
	printf("\"fault\": \"%s\", \"fault_argument\": %lld, \"every\": %lld, \"at\": %lld, ", faults[options.fault],
	       options.slow_us, options.every, options.at);
	printf("\"jobs\": %lld, \"ok\": %lld, \"failed\": %lld, \"timed_out\": %lld, \"unfinished\": %lld, ",
	       options.jobs, outcome->by_state[OK], outcome->by_state[FAILED], outcome->by_state[TIMED_OUT],
	       outcome->by_state[NOT_RUN] + outcome->by_state[RUNNING]);
	printf("\"faulty\": %lld, \"statuses\": {", outcome->faulty);
	print_statuses();
	printf("}, \"duration_ns\": %" PRId64 ", \"interrupted\": %s, \"killed\": %d, \"latency_ns\": ", duration_ns,
	       stopping ? "true" : "false", killed);
	if (outcome->by_state[OK])
		printf("{\"mean\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"max\": %" PRIu64 "}", outcome->mean,
		       outcome->median, outcome->most);
	else
		printf("null");
	printf(", \"params\": {");
	for (int i = 0; i < PARAMS; i++) {
		printf("%s\"%s\": ", i ? ", " : "", params[i].name);
		if (shared->params[i].error)
			printf("null");
		else
			printf("%" PRIu64, shared->params[i].value);
	}
	printf("}, \"ioctls\": {");
	for (int i = 0; i < CALLS; i++) {
		printf("%s\"%s\": {\"ok\": %" PRIu64 ", \"failed\": {", i ? ", " : "", calls[i].name, total(i, 0));
		print_failures(i);
		printf("}}");
	}
	printf("}}\n");
}

static bool was_made(enum call which)
{
	for (int error = 0; error < ERRNOS; error++)
		if (total(which, error))
			return true;
	return false;
}

static void print_text(const struct outcome *outcome, int64_t duration_ns, int killed)
{
	printf("%lld jobs on %s in %.3f s by %s, %lld x %lld workers%s\n", options.jobs, options.device,
	       duration_ns / 1e9, calls[shared->submit == WAY_CMDQ ? CMDQ_SUBMIT : SUBMIT].name, options.processes,
	       options.threads, stopping ? ", interrupted" : "");
	printf("jobs     ok %lld, failed %lld, timed out %lld, unfinished %lld\n", outcome->by_state[OK],
	       outcome->by_state[FAILED], outcome->by_state[TIMED_OUT],
	       outcome->by_state[NOT_RUN] + outcome->by_state[RUNNING]);
	if (options.fault)
		printf("faults   %s requested %lld times\n", faults[options.fault], outcome->faulty);
	if (killed)
		printf("killed   %d of the processes\n", killed);
	if (outcome->by_state[OK])
		printf("latency  mean %.1f us, p50 %.1f us, max %.1f us\n", outcome->mean / 1e3, outcome->median / 1e3,
		       outcome->most / 1e3);
	printf("%-14s %10s  failed\n", "ioctl", "ok");
	for (int i = 0; i < CALLS; i++) {
		if (!was_made(i))
			continue;
		printf("%-14s %10" PRIu64, calls[i].name, total(i, 0));
		for (int error = 1; error < ERRNOS; error++)
			if (total(i, error))
				printf("  %" PRIu64 " %s", total(i, error), errno_name(error));
		putchar('\n');
	}
}

/* Print the result, or why the load could not run; returns the exit status. */
int report(int64_t duration_ns, int killed)
{
	struct outcome outcome = summarize_jobs();
	int error = shared->problem_errno;

	if (shared->problem) {
		fprintf(stderr, "npu_load: %s: %s", options.device, shared->problem);
		if (error)
			fprintf(stderr, ": %s (%s)", strerror(error), errno_name(error));
		fputc('\n', stderr);
		if (error == ENOENT || error == ENXIO)
			fprintf(stderr, "  fix: python -m accel_magic lab run -- npu_load ...\n");
		if (error == EACCES || error == EPERM)
			fprintf(stderr, "  fix: run as root, or as a member of the group that owns the device\n");
		return 3;
	}
	(options.json ? print_json : print_text)(&outcome, duration_ns, killed);
	if (stopping)
		return 128 + stopping;
	return outcome.by_state[OK] != options.jobs;
}
