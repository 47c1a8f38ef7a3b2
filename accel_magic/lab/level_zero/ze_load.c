/* SPDX-License-Identifier: Apache-2.0 */
/* ze_load: runs copies on an NPU through Level Zero and counts every call exactly.
 *
 * Exit status: 0: all jobs succeeded; 1: some did not; 2: bad arguments; 3: NPU not usable.
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab_driver.h"
#include "ze_load.h"

#define MOST_JOBS 10000000
#define MOST_THREADS 1024

const char *const waits[] = { "fence", "query", "queue", "synchronous", NULL };
const char *const memories[] = { "host", "device", "shared", NULL };
const char *const faults[] = { "none", "slow", "hang", "lose", "duplicate", NULL };

struct options options = { .loader = "libze_loader.so.1", .jobs = 20, .threads = 1, .in_flight = 1, .size = 65536,
			   .timeout = 10, .memory = MEMORY_DEVICE };
struct api api;
struct load load;

static const char usage[] =
	"usage: ze_load [OPTION]...\n"
	"Run copies on the NPU through Level Zero and print the exact count of every call made for them.\n\n"
	"  --jobs N            total number of jobs (20)\n"
	"  --threads T         threads, each with its own queue (1)\n"
	"  --in-flight K       jobs that a thread submits before it waits for the oldest; 1: one after the other (1)\n"
	"  --wait HOW          fence: zeFenceHostSynchronize; query: poll with zeFenceQueryStatus;\n"
	"                      queue: zeCommandQueueSynchronize; synchronous: use a synchronous queue (fence)\n"
	"  --size BYTES        size of each of a job's two buffers (65536)\n"
	"  --memory KIND       destination buffer: host, device, shared (device); the source is host memory\n"
	"  --fresh             create buffers, command list and fence for every job instead of reusing them\n"
	"  --rate PER_SECOND   jobs started per second, in total (no limit)\n"
	"  --timeout S         seconds from a job's submission until it counts as timed out (10)\n"
	"  --fault FAULT       fault to inject in the lab: slow=MICROSECONDS, hang, lose or duplicate\n"
	"  --every K | --at J  inject the fault in every Kth submission, or in submission J\n"
	"  --loader PATH       loader library (libze_loader.so.1)\n"
	"  --driver PATH       driver library for the loader, as in ZE_ENABLE_ALT_DRIVERS\n"
	"  --json              print JSON\n";

static void refuse(const char *option, const char *value)
{
	fprintf(stderr, "ze_load: bad --%s '%s'\n%s", option, value, usage);
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
	double value = strtod(text, &end);

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

/* Pass the fault to the lab's driver, which writes it to the command buffer; other drivers ignore it. */
static void pass_on_fault(void)
{
	char text[100];

	if (options.fault ? !options.every == !options.at : options.every || options.at) {
		fprintf(stderr, "ze_load: --fault needs exactly one of --every K and --at J\n");
		exit(2);
	}
	snprintf(text, sizeof(text), "%d %lld %lld %lld", options.fault, options.slow_us, options.every, options.at);
	setenv(LAB_FAULT, text, 1);
}

static void parse(int count, char **arguments)
{
	static const char *const names[] = { "jobs", "threads", "in-flight", "wait", "size", "memory", "rate", "timeout",
		"fault", "every", "at", "loader", "driver", "fresh", "json", "help" };
	enum { N_JOBS, N_THREADS, N_IN_FLIGHT, N_WAIT, N_SIZE, N_MEMORY, N_RATE, N_TIMEOUT, N_FAULT, N_EVERY, N_AT, N_LOADER,
	       N_DRIVER, N_FRESH, N_JSON, N_HELP, NAMES };
	struct option table[NAMES + 1] = { 0 };
	int which;

	for (int i = 0; i < NAMES; i++)
		table[i] = (struct option){ names[i], i >= N_FRESH ? no_argument : required_argument, NULL, i + 1 };
	while ((which = getopt_long(count, arguments, "", table, NULL)) != -1) {
		const char *name = which == '?' ? "" : names[which - 1];

		switch (which - 1) {
		case N_JOBS: options.jobs = whole(name, optarg, 1, MOST_JOBS); break;
		case N_THREADS: options.threads = whole(name, optarg, 1, MOST_THREADS); break;
		case N_IN_FLIGHT: options.in_flight = whole(name, optarg, 1, MOST_THREADS); break;
		case N_WAIT: options.wait = one_of(name, optarg, waits); break;
		case N_SIZE: options.size = whole(name, optarg, 1, LLONG_MAX / 2); break;
		case N_MEMORY: options.memory = one_of(name, optarg, memories); break;
		case N_RATE: options.rate = real(name, optarg); break;
		case N_TIMEOUT: options.timeout = real(name, optarg); break;
		case N_FAULT: fault_option(name, optarg); break;
		case N_EVERY: options.every = whole(name, optarg, 1, MOST_JOBS); break;
		case N_AT: options.at = whole(name, optarg, 1, MOST_JOBS); break;
		case N_LOADER: options.loader = optarg; break;
		case N_DRIVER: options.driver = optarg; break;
		case N_FRESH: options.fresh = true; break;
		case N_JSON: options.json = true; break;
		case N_HELP: fputs(usage, stdout); exit(0);
		default: fputs(usage, stderr); exit(2);
		}
	}
	if (optind < count)
		refuse("", arguments[optind]);
	pass_on_fault();
}

/* Look up the API functions in the loader. */
static bool open_loader(void)
{
	void *loader = dlopen(options.loader, RTLD_NOW | RTLD_LOCAL);
	const char *missing = NULL;

	if (!loader) {
		snprintf(load.problem, sizeof(load.problem), "no Level Zero loader: %s", dlerror());
		return false;
	}
#define ZE_FIND(name, ...)                              \
	*(void **)&api.name = dlsym(loader, #name);     \
	missing = api.name ? missing : #name;
	ZE_LOAD_FUNCTIONS(ZE_FIND)
#undef ZE_FIND
	if (missing)
		snprintf(load.problem, sizeof(load.problem), "%s has no %s", options.loader, missing);
	return !missing;
}

int main(int count, char **arguments)
{
	parse(count, arguments);
	if (options.driver)
		setenv("ZE_ENABLE_ALT_DRIVERS", options.driver, 1);
	load.jobs = calloc(options.jobs, sizeof(*load.jobs));
	load.counts = calloc(options.threads + 1, sizeof(*load.counts));
	if (!load.jobs || !load.counts) {
		perror("ze_load: out of memory");
		return 3;
	}
	load.started_ns = now_ns();
	if (open_loader())
		run_jobs();
	load.duration_ns = now_ns() - load.started_ns;
	return report();
}
