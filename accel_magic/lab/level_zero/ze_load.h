/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of ze_load: ze_load.c (arguments), ze_jobs.c (the jobs), ze_report.c. */
#ifndef ACCEL_MAGIC_ZE_LOAD_H
#define ACCEL_MAGIC_ZE_LOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ze_api.h"

#define SECOND 1000000000ll

#define ZE_NUMBER(name, ...) N_##name,
enum function { ZE_LOAD_FUNCTIONS(ZE_NUMBER) FUNCTIONS };
#undef ZE_NUMBER

/* The loader's functions, by name. */
struct api {
#define ZE_MEMBER(name, ...) name##_type *name;
	ZE_LOAD_FUNCTIONS(ZE_MEMBER)
#undef ZE_MEMBER
};
extern struct api api;

/* Results that are counted separately; the last entry counts all others. */
#define RESULTS 12
struct result_kind {
	ze_result value;
	const char *name;
};
extern const struct result_kind results[RESULTS];

struct counts {
	uint64_t calls[FUNCTIONS][RESULTS];
};

enum wait_way { WAIT_FENCE, WAIT_QUERY, WAIT_QUEUE, WAIT_SYNCHRONOUS };
enum memory_kind { MEMORY_HOST, MEMORY_DEVICE, MEMORY_SHARED };

struct options {
	const char *loader, *driver;
	long long jobs, threads, in_flight, size;
	double rate;    /* jobs started per second, in total; 0: as fast as possible */
	double timeout; /* seconds from the submission */
	long long every, at; /* which submissions request the fault: every Kth, or number J; the other is 0 */
	long long slow_us;
	int wait, memory, fault;
	bool fresh, json;
};
extern struct options options;
extern const char *const waits[], *const memories[], *const faults[];

enum state { NOT_RUN, RUNNING, OK, FAILED, TIMED_OUT };

struct job {
	enum state state;
	uint64_t latency_ns; /* from before Execute until it was known to be done */
};

struct load {
	struct job *jobs;
	struct counts *counts; /* one per thread; the first is the main thread's */
	struct ze_device_properties device;
	int64_t started_ns, duration_ns;
	atomic_llong in_flight, most_in_flight;
	char problem[300]; /* why the load could not run */
};
extern struct load load;

int64_t now_ns(void);
ze_result counted(struct counts *counts, enum function which, ze_result result);
bool run_jobs(void);
int report(void);

/* Call an API function and count it. */
#define CALL(counts, name, ...) counted(counts, N_##name, api.name(__VA_ARGS__))

#endif
