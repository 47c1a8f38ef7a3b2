/* SPDX-License-Identifier: Apache-2.0 */
/* npu_load: runs jobs on an NPU through the intel_vpu driver and counts every ioctl exactly.
 *
 * Job j runs on worker j modulo the number of workers (processes * threads), so which jobs request a fault does not
 * depend on timing.
 *
 * Exit status: 0: all jobs succeeded; 1: some did not; 2: bad arguments; 3: NPU not usable; 128 + signal: interrupted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "npu_load.h"

#define MOST_JOBS 10000000
#define MOST_WORKERS 1024

const char *const submits[] = { "auto", "submit", "cmdq", NULL };
const char *const priorities[] = { "default", "idle", "normal", "focus", "realtime", NULL };
const char *const faults[] = { "none", "slow", "hang", "lose", "duplicate", NULL };

struct options options = { .device = "/dev/accel/accel0", .jobs = 20, .processes = 1, .threads = 1, .buffers = 1,
			   .size = 65536, .timeout = 10 };
struct shared *shared;
struct job *jobs;
volatile sig_atomic_t stopping;

static const char usage[] =
	"usage: npu_load [OPTION]...\n"
	"Run jobs on the NPU and print the exact count of every ioctl made for them.\n\n"
	"  --jobs N            total number of jobs (20)\n"
	"  --processes P       processes; each opens the device itself (1)\n"
	"  --threads T         threads per process (1)\n"
	"  --buffers B         buffers per job; the first is its command buffer (1)\n"
	"  --size BYTES        size of each buffer (65536)\n"
	"  --rate PER_SECOND   jobs started per second, in total (no limit)\n"
	"  --submit WAY        submit: the SUBMIT ioctl; cmdq: command queues; auto: cmdq if the driver has it (auto)\n"
	"  --priority NAME     default, idle, normal, focus, realtime (default)\n"
	"  --timeout S         seconds from a job's submission until it counts as timed out (10)\n"
	"  --fault FAULT       fault to inject in the lab: slow=MICROSECONDS, hang, lose or duplicate\n"
	"  --every K | --at J  inject the fault in every Kth job, or in job J\n"
	"  --device PATH       device node (/dev/accel/accel0)\n"
	"  --json              print JSON\n";

static void refuse(const char *option, const char *value)
{
	fprintf(stderr, "npu_load: bad --%s '%s'\n%s", option, value, usage);
	exit(2);
}

static long long whole(const char *option, const char *text, long long least, long long most)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most)
		refuse(option, text);
	return value;
}

static double real(const char *option, const char *text)
{
	char *end;
	double value;

	value = strtod(text, &end);
	if (end == text || *end || !(value >= 0 && value <= 1e9))
		refuse(option, text);
	return value;
}

static int one_of(const char *option, const char *text, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (!strcmp(text, names[i]))
			return i;
	refuse(option, text);
	return 0;
}

static void fault_option(const char *option, const char *text)
{
	if (!strncmp(text, "slow=", 5)) {
		options.fault = NPU_FAULT_SLOW;
		options.slow_us = whole(option, text + 5, 0, LLONG_MAX);
	} else if ((options.fault = one_of(option, text, faults)) <= NPU_FAULT_SLOW) {
		refuse(option, text);
	}
}

static void parse(int count, char **arguments)
{
	static const char *const names[] = { "jobs", "processes", "threads", "buffers", "size", "rate", "submit",
		"priority", "timeout", "fault", "every", "at", "device", "json", "help" };
	enum { N_JOBS, N_PROCESSES, N_THREADS, N_BUFFERS, N_SIZE, N_RATE, N_SUBMIT, N_PRIORITY, N_TIMEOUT, N_FAULT,
	       N_EVERY, N_AT, N_DEVICE, N_JSON, N_HELP, NAMES };
	struct option table[NAMES + 1] = { 0 };
	int which;

	for (int i = 0; i < NAMES; i++)
		table[i] = (struct option){ names[i], i >= N_JSON ? no_argument : required_argument, NULL, i + 1 };
	while ((which = getopt_long(count, arguments, "", table, NULL)) != -1) {
		const char *name = which == '?' ? "" : names[which - 1];

		switch (which - 1) {
		case N_JOBS: options.jobs = whole(name, optarg, 1, MOST_JOBS); break;
		case N_PROCESSES: options.processes = whole(name, optarg, 1, MOST_WORKERS); break;
		case N_THREADS: options.threads = whole(name, optarg, 1, MOST_WORKERS); break;
		case N_BUFFERS: options.buffers = whole(name, optarg, 1, 65535); break;
		case N_SIZE: options.size = whole(name, optarg, 64, LLONG_MAX / 2); break;
		case N_RATE: options.rate = real(name, optarg); break;
		case N_SUBMIT: options.submit = one_of(name, optarg, submits); break;
		case N_PRIORITY: options.priority = one_of(name, optarg, priorities); break;
		case N_TIMEOUT: options.timeout = real(name, optarg); break;
		case N_FAULT: fault_option(name, optarg); break;
		case N_EVERY: options.every = whole(name, optarg, 1, MOST_JOBS); break;
		case N_AT: options.at = whole(name, optarg, 1, MOST_JOBS); break;
		case N_DEVICE: options.device = optarg; break;
		case N_JSON: options.json = true; break;
		case N_HELP: fputs(usage, stdout); exit(0);
		default: fputs(usage, stderr); exit(2);
		}
	}
	if (optind < count)
		refuse("", arguments[optind]);
	if (options.processes * options.threads > MOST_WORKERS) {
		fprintf(stderr, "npu_load: more than %d workers\n", MOST_WORKERS);
		exit(2);
	}
	if (options.fault ? !options.every == !options.at : options.every || options.at) {
		fprintf(stderr, "npu_load: --fault needs exactly one of --every K and --at J\n");
		exit(2);
	}
}

static void stop(int signal)
{
	if (!stopping) /* later signals only wake the threads */
		stopping = signal;
}

static void child_ended(int signal)
{
	(void)signal;
}

/* Run the processes and wait for them, forwarding a signal that stops the load. Returns how many were killed. */
static int run_processes(void)
{
	pid_t *children = calloc(options.processes, sizeof(*children));
	sigset_t signals, before;
	long long left = 0;
	int killed = 0, status;

	if (!children)
		exit(3);
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGCHLD);
	sigprocmask(SIG_BLOCK, &signals, &before);
	for (; left < options.processes; left++) {
		pid_t parent = getpid();

		children[left] = fork();
		if (children[left] < 0) {
			shared->problem = "cannot start a process";
			shared->problem_errno = errno;
			break;
		}
		if (!children[left]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(3);
			sigprocmask(SIG_SETMASK, &before, NULL);
			run_process(left);
			_exit(0);
		}
	}
	for (long long started = left; left;) {
		for (long long i = 0; i < started; i++) {
			if (children[i] > 0 && waitpid(children[i], &status, WNOHANG) == children[i]) {
				killed += WIFSIGNALED(status);
				children[i] = 0;
				left--;
			} else if (children[i] > 0 && stopping) {
				kill(children[i], SIGINT);
			}
		}
		if (left)
			sigsuspend(&before);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	free(children);
	return killed;
}

int main(int count, char **arguments)
{
	/* No SA_RESTART, so that a signal ends a wait in the driver. The SIGCHLD handler wakes the parent process. */
	struct sigaction on_stop = { .sa_handler = stop }, on_child = { .sa_handler = child_ended };
	size_t size;
	int killed = 0;

	parse(count, arguments);
	size = sizeof(*shared) + options.processes * options.threads * sizeof(*shared->workers) +
	       options.jobs * sizeof(*jobs);
	shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		perror("npu_load: out of memory");
		return 3;
	}
	jobs = (struct job *)&shared->workers[options.processes * options.threads];
	sigaction(SIGINT, &on_stop, NULL);
	sigaction(SIGTERM, &on_stop, NULL);
	sigaction(SIGCHLD, &on_child, NULL);
	shared->started_ns = now_ns();
	if (options.processes > 1)
		killed = run_processes();
	else
		run_process(0);
	return report(now_ns() - shared->started_ns, killed);
}
