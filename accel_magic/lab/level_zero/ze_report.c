/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the result of the load as text or JSON; accel_magic/lab/npu/level_zero_load.py reads the JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ze_load.h"

static const char *const names[FUNCTIONS] = {
#define ZE_NAME(name, ...) #name,
	ZE_LOAD_FUNCTIONS(ZE_NAME)
#undef ZE_NAME
};

/* Jobs by state, and the latencies (ns) of those that succeeded. */
struct outcome {
	long long by_state[TIMED_OUT + 1];
	uint64_t mean, median, most;
};

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

	for (long long i = 0; i < options.jobs; i++) {
		outcome.by_state[load.jobs[i].state]++;
		if (load.jobs[i].state == OK && latencies) {
			latencies[count++] = load.jobs[i].latency_ns;
			sum += load.jobs[i].latency_ns;
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

static uint64_t total(int function, int result)
{
	uint64_t sum = 0;

	for (long long i = 0; i <= options.threads; i++)
		sum += load.counts[i].calls[function][result];
	return sum;
}

static bool was_called(int function)
{
	for (int result = 0; result < RESULTS; result++)
		if (total(function, result))
			return true;
	return false;
}

/* Number of submissions that requested the fault. */
static long long faulty(void)
{
	long long submitted = 0;

	for (int result = 0; result < RESULTS; result++)
		submitted += total(N_zeCommandQueueExecuteCommandLists, result);
	if (options.at)
		return submitted >= options.at;
	return options.every ? submitted / options.every : 0;
}

static void print_counts(int function, const char *open, const char *close, const char *pair, const char *between)
{
	const char *comma = "";

	fputs(open, stdout);
	for (int result = 0; result < RESULTS; result++)
		if (total(function, result)) {
			fputs(comma, stdout);
			printf(pair, results[result].name, total(function, result));
			comma = between;
		}
	fputs(close, stdout);
}

static void print_json(const struct outcome *outcome)
{
	const char *comma = "";

	/* No name needs escaping: options are fixed words, and the device's name is plain text. */
	printf("{\"device\": \"%s\", \"threads\": %lld, \"in_flight\": %lld, \"wait\": \"%s\", \"size\": %lld, ",
	       load.device.name, options.threads, options.in_flight, waits[options.wait], options.size);
	printf("\"memory\": \"%s\", \"fresh\": %s, \"rate\": %g, \"timeout\": %g, ", memories[options.memory],
	       options.fresh ? "true" : "false", options.rate, options.timeout);
	printf("\"fault\": \"%s\", \"fault_argument\": %lld, \"every\": %lld, \"at\": %lld, \"faulty\": %lld, ",
	       faults[options.fault], options.slow_us, options.every, options.at, faulty());
	printf("\"jobs\": %lld, \"ok\": %lld, \"failed\": %lld, \"timed_out\": %lld, ", options.jobs,
	       outcome->by_state[OK], outcome->by_state[FAILED] + outcome->by_state[NOT_RUN],
	       outcome->by_state[TIMED_OUT]);
	printf("\"most_in_flight\": %lld, \"duration_ns\": %" PRId64 ", \"latency_ns\": ",
	       atomic_load(&load.most_in_flight), load.duration_ns);
	if (outcome->by_state[OK])
		printf("{\"mean\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"max\": %" PRIu64 "}", outcome->mean,
		       outcome->median, outcome->most);
	else
		printf("null");
	printf(", \"calls\": {");
	for (int i = 0; i < FUNCTIONS; i++) {
		if (!was_called(i))
			continue;
		printf("%s\"%s\": ", comma, names[i]);
		print_counts(i, "{", "}", "\"%s\": %" PRIu64, ", ");
		comma = ", ";
	}
	printf("}}\n");
}

static void print_text(const struct outcome *outcome)
{
	printf("%lld jobs on %s in %.3f s, %lld threads, at most %lld in flight\n", options.jobs, load.device.name,
	       load.duration_ns / 1e9, options.threads, atomic_load(&load.most_in_flight));
	printf("jobs     ok %lld, failed %lld, timed out %lld\n", outcome->by_state[OK],
	       outcome->by_state[FAILED] + outcome->by_state[NOT_RUN], outcome->by_state[TIMED_OUT]);
	if (options.fault)
		printf("faults   %s requested %lld times\n", faults[options.fault], faulty());
	if (outcome->by_state[OK])
		printf("latency  mean %.1f us, p50 %.1f us, max %.1f us\n", outcome->mean / 1e3, outcome->median / 1e3,
		       outcome->most / 1e3);
	for (int i = 0; i < FUNCTIONS; i++)
		if (was_called(i)) {
			printf("%-40s", names[i]);
			print_counts(i, "", "\n", "%s %" PRIu64, "  ");
		}
}

/* Print the result, or why the load could not run; returns the exit status. */
int report(void)
{
	struct outcome outcome = summarize_jobs();

	if (*load.problem) {
		fprintf(stderr, "ze_load: %s\n", load.problem);
		return 3;
	}
	(options.json ? print_json : print_text)(&outcome);
	return outcome.by_state[OK] != options.jobs;
}
