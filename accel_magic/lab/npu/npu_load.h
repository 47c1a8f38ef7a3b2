/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of npu_load: npu_load.c (arguments, processes), npu_jobs.c (one process), npu_report.c. */
#ifndef ACCEL_MAGIC_NPU_LOAD_H
#define ACCEL_MAGIC_NPU_LOAD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "npu_uapi.h"

#define SECOND 1000000000ll
#define ERRNOS 134 /* Linux's largest errno + 1; index 0 counts successes */

enum call { VERSION, GET_PARAM, BO_CREATE, BO_INFO, CMDQ_CREATE, SUBMIT, CMDQ_SUBMIT, BO_WAIT, GEM_CLOSE,
	    CMDQ_DESTROY, CALLS };

struct call_kind {
	const char *name;
	unsigned long request;
};
extern const struct call_kind calls[CALLS];

#define PARAMS 14 /* those that a user-mode driver reads when it opens the device */
struct param_kind {
	const char *name;
	uint32_t id, index;
};
extern const struct param_kind params[PARAMS];

enum submit_way { WAY_AUTO, WAY_SUBMIT, WAY_CMDQ };

struct options {
	const char *device;
	long long jobs, processes, threads, buffers, size;
	long long every, at;     /* which jobs request the fault: every Kth, or number J; the other is 0 */
	long long slow_us;
	double rate;             /* jobs per second, in total; 0: as fast as possible */
	double timeout;          /* seconds from the submission */
	int submit, priority, fault;
	bool json;
};
extern struct options options;

enum state { NOT_RUN, RUNNING, OK, FAILED, TIMED_OUT };

struct job {
	uint32_t state;
	bool ended;              /* whether the driver reported its end; `status` is then valid */
	uint32_t status;
	uint64_t latency_ns;     /* from before the submission until BO_WAIT returned */
};

struct worker {
	uint64_t counts[CALLS][ERRNOS];
};

struct param_value {
	uint64_t value;
	int error;
};

/* Shared memory that all processes update as they go, so that it survives an interrupt or a killed process. */
struct shared {
	int64_t started_ns;
	_Atomic(const char *) problem; /* a literal (one address in every process): why the load could not run */
	atomic_int problem_errno;
	atomic_int submit;             /* the submit_way in use */
	struct param_value params[PARAMS]; /* as the first process read them */
	struct worker workers[];       /* the jobs follow */
};
extern struct shared *shared;
extern struct job *jobs;
extern volatile sig_atomic_t stopping; /* the signal that stops the load; 0 for none */

/* Names by number, terminated by NULL. */
extern const char *const submits[], *const priorities[], *const faults[];

int64_t now_ns(void);
bool is_faulty(long long number);
void run_process(long long process);
int report(int64_t duration_ns, int killed);

#endif
