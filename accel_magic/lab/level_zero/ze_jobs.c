/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs: one context, a queue per thread, and for each job a command list that copies one buffer to another.
 *
 * A thread has one place per job it keeps in flight. Job j runs on thread j modulo the number of threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ze_load.h"

const struct result_kind results[RESULTS] = {
	{ ZE_SUCCESS, "SUCCESS" },
	{ ZE_NOT_READY, "NOT_READY" },
	{ ZE_DEVICE_LOST, "DEVICE_LOST" },
	{ ZE_OUT_OF_HOST_MEMORY, "OUT_OF_HOST_MEMORY" },
	{ ZE_OUT_OF_DEVICE_MEMORY, "OUT_OF_DEVICE_MEMORY" },
	{ ZE_UNINITIALIZED, "UNINITIALIZED" },
	{ ZE_UNSUPPORTED_FEATURE, "UNSUPPORTED_FEATURE" },
	{ ZE_INVALID_ARGUMENT, "INVALID_ARGUMENT" },
	{ ZE_INVALID_NULL_HANDLE, "INVALID_NULL_HANDLE" },
	{ ZE_INVALID_SYNCHRONIZATION_OBJECT, "INVALID_SYNCHRONIZATION_OBJECT" },
	{ ZE_UNKNOWN, "UNKNOWN" },
	{ UINT32_MAX, "OTHER" },
};

/* A slot for one job in flight, with its buffers, list and fence. */
struct place {
	void *source, *target;
	ze_list list;
	ze_fence fence;
	struct job *job; /* NULL: free */
	int64_t submitted_ns;
};

struct thread {
	pthread_t id;
	long long number;
	struct counts *counts;
	ze_queue queue;
	struct place *places;
	bool started;
};

static ze_device device;
static ze_context context;

int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * SECOND + time.tv_nsec;
}

ze_result counted(struct counts *counts, enum function which, ze_result result)
{
	int kind = 0;

	while (kind < RESULTS - 1 && results[kind].value != result)
		kind++;
	counts->calls[which][kind]++;
	return result;
}

static bool needs_fence(void)
{
	return options.wait == WAIT_FENCE || options.wait == WAIT_QUERY;
}

static ze_result allocate_target(struct counts *counts, void **memory)
{
	struct ze_flags_description host = { .kind = ZE_KIND_HOST_MEMORY };
	struct ze_ordinal_description own = { .kind = ZE_KIND_DEVICE_MEMORY };

	switch (options.memory) {
	case MEMORY_HOST: return CALL(counts, zeMemAllocHost, context, &host, options.size, 64, memory);
	case MEMORY_DEVICE: return CALL(counts, zeMemAllocDevice, context, &own, options.size, 64, device, memory);
	default: return CALL(counts, zeMemAllocShared, context, &own, &host, options.size, 64, device, memory);
	}
}

static bool fill_list(struct counts *counts, struct place *place)
{
	return !CALL(counts, zeCommandListAppendMemoryCopy, place->list, place->target, place->source, options.size, NULL,
		     0, NULL) &&
	       !CALL(counts, zeCommandListAppendBarrier, place->list, NULL, 0, NULL) &&
	       !CALL(counts, zeCommandListClose, place->list);
}

/* Create everything that a job needs. */
static bool prepare(struct thread *thread, struct place *place)
{
	struct counts *counts = thread->counts;
	struct ze_flags_description host = { .kind = ZE_KIND_HOST_MEMORY }, fence = { .kind = ZE_KIND_FENCE };
	struct ze_ordinal_description list = { .kind = ZE_KIND_LIST };

	if (place->list)
		return true;
	if (CALL(counts, zeMemAllocHost, context, &host, options.size, 64, &place->source) ||
	    allocate_target(counts, &place->target))
		return false;
	memset(place->source, 0, options.size);
	return !CALL(counts, zeCommandListCreate, context, device, &list, &place->list) && fill_list(counts, place) &&
	       (!needs_fence() || !CALL(counts, zeFenceCreate, thread->queue, &fence, &place->fence));
}

static void clear(struct thread *thread, struct place *place)
{
	if (place->fence)
		CALL(thread->counts, zeFenceDestroy, place->fence);
	if (place->list)
		CALL(thread->counts, zeCommandListDestroy, place->list);
	if (place->target)
		CALL(thread->counts, zeMemFree, context, place->target);
	if (place->source)
		CALL(thread->counts, zeMemFree, context, place->source);
	*place = (struct place){ 0 };
}

static void note_most(void)
{
	long long now = atomic_fetch_add(&load.in_flight, 1) + 1, most = atomic_load(&load.most_in_flight);

	while (now > most && !atomic_compare_exchange_weak(&load.most_in_flight, &most, now))
		;
}

static void end(struct thread *thread, struct place *place, ze_result result)
{
	place->job->latency_ns = now_ns() - place->submitted_ns;
	place->job->state = result == ZE_NOT_READY ? TIMED_OUT : result ? FAILED : OK;
	place->job = NULL;
	atomic_fetch_sub(&load.in_flight, 1);
	/* After a timeout the fence is not reset, because the job is still in flight. */
	if (place->fence && result == ZE_SUCCESS)
		CALL(thread->counts, zeFenceReset, place->fence);
	if (options.fresh)
		clear(thread, place);
}

static uint64_t time_left(const struct place *place)
{
	int64_t left = place->submitted_ns + (int64_t)(options.timeout * SECOND) - now_ns();

	return left > 0 ? left : 0;
}

/* Wait for the job in a place, or with WAIT_QUEUE for the jobs in all places. */
static void finish(struct thread *thread, struct place *place)
{
	ze_result result;

	if (options.wait == WAIT_QUEUE) {
		result = CALL(thread->counts, zeCommandQueueSynchronize, thread->queue, time_left(place));
		for (long long i = 0; i < options.in_flight; i++)
			if (thread->places[i].job)
				end(thread, &thread->places[i], result);
		return;
	}
	if (options.wait == WAIT_FENCE)
		result = CALL(thread->counts, zeFenceHostSynchronize, place->fence, time_left(place));
	else
		do
			result = CALL(thread->counts, zeFenceQueryStatus, place->fence);
		while (result == ZE_NOT_READY && time_left(place));
	end(thread, place, result);
}

static void submit(struct thread *thread, struct place *place, struct job *job)
{
	ze_result result;

	job->state = RUNNING;
	if (!prepare(thread, place)) {
		job->state = FAILED;
		clear(thread, place);
		return;
	}
	place->job = job;
	place->submitted_ns = now_ns();
	note_most();
	result = CALL(thread->counts, zeCommandQueueExecuteCommandLists, thread->queue, 1, &place->list, place->fence);
	if (result || options.wait == WAIT_SYNCHRONOUS)
		end(thread, place, result);
}

/* Sleep until a job is due. */
static void wait_turn(long long number)
{
	int64_t due = load.started_ns + (int64_t)(options.rate > 0 ? number / options.rate * SECOND : 0);
	struct timespec time = { due / SECOND, due % SECOND };

	while (options.rate > 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

static void run_queue(struct thread *thread)
{
	long long turn = 0;

	for (long long j = thread->number; j < options.jobs; j += options.threads, turn++) {
		struct place *place = &thread->places[turn % options.in_flight];

		wait_turn(j);
		if (place->job)
			finish(thread, place);
		submit(thread, place, &load.jobs[j]);
	}
	for (long long i = 0; i < options.in_flight; i++, turn++)
		if (thread->places[turn % options.in_flight].job)
			finish(thread, &thread->places[turn % options.in_flight]);
	for (long long i = 0; i < options.in_flight; i++)
		clear(thread, &thread->places[i]);
}

static void *run_thread(void *argument)
{
	struct thread *thread = argument;
	struct ze_queue_description queue = { .kind = ZE_KIND_QUEUE };

	queue.mode = options.wait == WAIT_SYNCHRONOUS ? ZE_QUEUE_SYNCHRONOUS : ZE_QUEUE_ASYNCHRONOUS;
	if (!CALL(thread->counts, zeCommandQueueCreate, context, device, &queue, &thread->queue)) {
		run_queue(thread);
		CALL(thread->counts, zeCommandQueueDestroy, thread->queue);
	}
	return NULL;
}

static bool run_threads(void)
{
	struct thread *threads = calloc(options.threads, sizeof(*threads));
	int error = threads ? 0 : ENOMEM;

	for (long long i = 0; i < options.threads && !error; i++) {
		threads[i].number = i;
		threads[i].counts = &load.counts[i + 1];
		threads[i].places = calloc(options.in_flight, sizeof(*threads[i].places));
		error = threads[i].places ? pthread_create(&threads[i].id, NULL, run_thread, &threads[i]) : ENOMEM;
		threads[i].started = !error;
	}
	for (long long i = 0; i < options.threads && threads; i++) {
		if (threads[i].started)
			pthread_join(threads[i].id, NULL);
		free(threads[i].places);
	}
	free(threads);
	if (error)
		snprintf(load.problem, sizeof(load.problem), "cannot start a thread: %s", strerror(error));
	return !error;
}

static bool found_npu(struct counts *counts)
{
	struct ze_driver *driver;
	struct ze_flags_description description = { .kind = ZE_KIND_CONTEXT };
	uint32_t drivers = 0, devices = 0;
	ze_result result;

	load.device.kind = ZE_KIND_DEVICE_PROPERTIES;
	if ((result = CALL(counts, zeInit, 0)) || (result = CALL(counts, zeDriverGet, &drivers, NULL)))
		snprintf(load.problem, sizeof(load.problem), "Level Zero has no working driver (%#x)", result);
	else if (drivers = 1, (result = CALL(counts, zeDriverGet, &drivers, &driver)) ||
			      (result = CALL(counts, zeDeviceGet, driver, &devices, NULL)) ||
			      (devices = 1, result = CALL(counts, zeDeviceGet, driver, &devices, &device)) ||
			      (result = CALL(counts, zeDeviceGetProperties, device, &load.device)))
		snprintf(load.problem, sizeof(load.problem), "the driver lists no device (%#x)", result);
	else if (load.device.type != ZE_DEVICE_NPU)
		snprintf(load.problem, sizeof(load.problem), "%s is not an NPU", load.device.name);
	else if ((result = CALL(counts, zeContextCreate, driver, &description, &context)))
		snprintf(load.problem, sizeof(load.problem), "cannot create a context (%#x)", result);
	return !*load.problem;
}

/* Run the load; false, with load.problem set, if it could not run. */
bool run_jobs(void)
{
	bool ran = found_npu(&load.counts[0]) && run_threads();

	if (context)
		CALL(&load.counts[0], zeContextDestroy, context);
	return ran;
}
