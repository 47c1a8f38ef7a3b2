/* SPDX-License-Identifier: Apache-2.0 */
/* One process of the load: it opens the device, reads the parameters that a user-mode driver reads, and its threads run
 * jobs one after the other: create, map and fill the buffers, submit, wait, unmap, close. Every ioctl is counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "npu_load.h"

const struct call_kind calls[CALLS] = {
	[VERSION] = { "VERSION", NPU_IOCTL_VERSION },
	[GET_PARAM] = { "GET_PARAM", NPU_IOCTL_GET_PARAM },
	[BO_CREATE] = { "BO_CREATE", NPU_IOCTL_BO_CREATE },
	[BO_INFO] = { "BO_INFO", NPU_IOCTL_BO_INFO },
	[CMDQ_CREATE] = { "CMDQ_CREATE", NPU_IOCTL_CMDQ_CREATE },
	[SUBMIT] = { "SUBMIT", NPU_IOCTL_SUBMIT },
	[CMDQ_SUBMIT] = { "CMDQ_SUBMIT", NPU_IOCTL_CMDQ_SUBMIT },
	[BO_WAIT] = { "BO_WAIT", NPU_IOCTL_BO_WAIT },
	[GEM_CLOSE] = { "GEM_CLOSE", NPU_IOCTL_GEM_CLOSE },
	[CMDQ_DESTROY] = { "CMDQ_DESTROY", NPU_IOCTL_CMDQ_DESTROY },
};

const struct param_kind params[PARAMS] = {
	{ "device_id", NPU_PARAM_DEVICE_ID, 0 },
	{ "device_revision", NPU_PARAM_DEVICE_REVISION, 0 },
	{ "platform_type", NPU_PARAM_PLATFORM_TYPE, 0 },
	{ "core_clock_rate", NPU_PARAM_CORE_CLOCK_RATE, 0 },
	{ "num_contexts", NPU_PARAM_NUM_CONTEXTS, 0 },
	{ "context_base_address", NPU_PARAM_CONTEXT_BASE_ADDRESS, 0 },
	{ "fw_api_version", NPU_PARAM_FW_API_VERSION, 0 },
	{ "engine_heartbeat", NPU_PARAM_ENGINE_HEARTBEAT, NPU_ENGINE_COMPUTE },
	{ "unique_inference_id", NPU_PARAM_UNIQUE_INFERENCE_ID, 0 },
	{ "tile_config", NPU_PARAM_TILE_CONFIG, 0 },
	{ "sku", NPU_PARAM_SKU, 0 },
	{ "cap_metric_streamer", NPU_PARAM_CAPABILITIES, NPU_CAP_METRIC_STREAMER },
	{ "cap_dma_memory_range", NPU_PARAM_CAPABILITIES, NPU_CAP_DMA_MEMORY_RANGE },
	{ "cap_manage_cmdq", NPU_PARAM_CAPABILITIES, NPU_CAP_MANAGE_CMDQ },
};
struct thread {
	pthread_t id;
	struct worker *worker;
	int fd;
	long long number;
	bool started, ended;
};

/* Guards `ended` of this process's threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t thread_ended = PTHREAD_COND_INITIALIZER;

int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * SECOND + time.tv_nsec;
}

/* Make one ioctl and count it, even if interrupted; returns 0 or its errno. */
static int call(struct worker *worker, int fd, enum call which, void *argument)
{
	int error = ioctl(fd, calls[which].request, argument) ? errno : 0;

	worker->counts[which][error < ERRNOS ? error : ERRNOS - 1]++;
	return error;
}

static bool give_up(const char *problem, int error)
{
	const char *none = NULL;

	if (atomic_compare_exchange_strong(&shared->problem, &none, problem))
		atomic_store(&shared->problem_errno, error);
	return false;
}

struct buffer {
	uint32_t handle;
	void *memory; /* NULL: not mapped */
	size_t size;
};

/* Create, map and zero a buffer; a faulty job's command buffer starts with the fault request. */
static bool make_buffer(struct thread *thread, struct buffer *buffer, bool command, bool faulty)
{
	struct npu_bo_create create = { .size = options.size, .flags = NPU_BO_MAPPABLE | NPU_BO_CACHED };
	struct npu_bo_info info = { 0 };
	void *memory;

	if (!command)
		create.flags |= NPU_BO_SHAVE_MEM;
	if (call(thread->worker, thread->fd, BO_CREATE, &create))
		return false;
	buffer->handle = info.handle = create.handle;
	if (call(thread->worker, thread->fd, BO_INFO, &info))
		return false;
	memory = mmap(NULL, info.size, PROT_READ | PROT_WRITE, MAP_SHARED, thread->fd, (off_t)info.mmap_offset);
	if (memory == MAP_FAILED)
		return false;
	buffer->memory = memory;
	buffer->size = info.size;
	memset(memory, 0, info.size);
	if (command && faulty) {
		struct npu_fault fault = { NPU_FAULT_MAGIC, options.fault, options.slow_us };

		memcpy(memory, &fault, sizeof(fault));
	}
	return true;
}

static void close_buffer(struct thread *thread, struct buffer *buffer)
{
	struct npu_gem_close close_it = { .handle = buffer->handle };

	if (buffer->memory)
		munmap(buffer->memory, buffer->size);
	if (buffer->handle)
		call(thread->worker, thread->fd, GEM_CLOSE, &close_it);
}

static int submit(struct thread *thread, uint32_t queue, const uint32_t *handles)
{
	struct npu_submit old = { .buffers = (uintptr_t)handles, .buffer_count = options.buffers,
				  .engine = NPU_ENGINE_COMPUTE, .priority = options.priority };
	struct npu_cmdq_submit new = { .buffers = (uintptr_t)handles, .buffer_count = options.buffers,
				       .queue = queue };

	return queue ? call(thread->worker, thread->fd, CMDQ_SUBMIT, &new)
		     : call(thread->worker, thread->fd, SUBMIT, &old);
}

bool is_faulty(long long number)
{
	return options.fault && (options.at ? number == options.at : number % options.every == 0);
}

static void run_job(struct thread *thread, uint32_t queue, long long number, struct buffer *buffers, uint32_t *handles)
{
	struct job *job = &jobs[number - 1];
	struct npu_bo_wait wait = { 0 };
	bool ready = true;
	int64_t began;
	int error;

	job->state = RUNNING;
	memset(buffers, 0, options.buffers * sizeof(*buffers));
	for (long long i = 0; i < options.buffers && ready; i++) {
		ready = make_buffer(thread, &buffers[i], i == 0, is_faulty(number));
		handles[i] = buffers[i].handle;
	}
	began = now_ns();
	if (!ready || submit(thread, queue, handles)) {
		job->state = FAILED;
	} else {
		wait.handle = handles[0];
		wait.deadline_ns = began + (int64_t)(options.timeout * SECOND);
		do
			error = call(thread->worker, thread->fd, BO_WAIT, &wait);
		while ((error == EINTR || error == EAGAIN) && !stopping);
		job->latency_ns = now_ns() - began;
		job->status = wait.job_status;
		if (error == ETIMEDOUT)
			job->state = TIMED_OUT;
		else if (error != EINTR && error != EAGAIN)
			job->state = error || wait.job_status != NPU_JOB_SUCCESS ? FAILED : OK;
		job->ended = !error;
	}
	for (long long i = 0; i < options.buffers; i++)
		close_buffer(thread, &buffers[i]);
}

/* Sleep until job `number` is due; false if the load was stopped. */
static bool wait_turn(long long number)
{
	int64_t due = shared->started_ns + (int64_t)(options.rate > 0 ? (number - 1) / options.rate * SECOND : 0);
	struct timespec time = { due / SECOND, due % SECOND };

	while (options.rate > 0 && !stopping && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
	return !stopping;
}

static void *run_thread(void *argument)
{
	struct thread *thread = argument;
	struct npu_cmdq_create queue = { .priority = options.priority };
	struct buffer *buffers = calloc(options.buffers, sizeof(*buffers));
	uint32_t *handles = calloc(options.buffers, sizeof(*handles));
	int error = 0;

	if (!buffers || !handles)
		give_up("out of memory", ENOMEM);
	else if (shared->submit == WAY_CMDQ && (error = call(thread->worker, thread->fd, CMDQ_CREATE, &queue)))
		give_up(error == EINVAL || error == ENODEV || error == ENOTTY
				? "this driver has no command queues (CMDQ_CREATE): use --submit submit"
				: "cannot create a command queue (CMDQ_CREATE)", error);
	else
		for (long long j = thread->number + 1; j <= options.jobs && wait_turn(j) && !shared->problem;
		     j += options.processes * options.threads)
			run_job(thread, queue.queue, j, buffers, handles);
	if (queue.queue) {
		struct npu_cmdq_destroy destroy = { queue.queue };

		call(thread->worker, thread->fd, CMDQ_DESTROY, &destroy);
	}
	free(buffers);
	free(handles);
	pthread_mutex_lock(&lock);
	thread->ended = true;
	pthread_cond_signal(&thread_ended);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* Check that the device is an NPU, read its parameters, and choose how jobs are submitted. */
static bool query_device(int fd, struct worker *worker, bool first)
{
	char name[16] = "";
	struct npu_version version = { .name = (uintptr_t)name, .name_size = sizeof(name) - 1 };
	int error = call(worker, fd, VERSION, &version), way = options.submit;

	if (error || strcmp(name, "intel_vpu"))
		return give_up("this device does not belong to the intel_vpu driver", error);
	for (size_t i = 0; i < PARAMS; i++) {
		struct npu_param param = { .param = params[i].id, .index = params[i].index };

		error = call(worker, fd, GET_PARAM, &param);
		if (first) {
			shared->params[i].value = param.value;
			shared->params[i].error = error;
		}
		if (way == WAY_AUTO && params[i].id == NPU_PARAM_CAPABILITIES && params[i].index == NPU_CAP_MANAGE_CMDQ)
			way = !error && param.value ? WAY_CMDQ : WAY_SUBMIT;
	}
	shared->submit = way;
	return true;
}

static bool any_runs(struct thread *threads)
{
	for (long long i = 0; i < options.threads; i++)
		if (threads[i].started && !threads[i].ended)
			return true;
	return false;
}

/* Wait for the threads. A signal interrupts the system call of one thread only, and may arrive just before the call, so
 * when the load stops, every thread is signaled until it ends.
 */
static void join(struct thread *threads)
{
	pthread_mutex_lock(&lock);
	while (any_runs(threads)) {
		struct timespec soon;

		clock_gettime(CLOCK_REALTIME, &soon);
		soon.tv_nsec += 50000000;
		soon.tv_sec += soon.tv_nsec / SECOND;
		soon.tv_nsec %= SECOND;
		pthread_cond_timedwait(&thread_ended, &lock, &soon);
		for (long long i = 0; i < options.threads && stopping; i++)
			if (threads[i].started && !threads[i].ended)
				pthread_kill(threads[i].id, SIGINT);
	}
	pthread_mutex_unlock(&lock);
	for (long long i = 0; i < options.threads; i++)
		if (threads[i].started)
			pthread_join(threads[i].id, NULL);
}

/* Open the device and run this process's share of the jobs in its threads. */
void run_process(long long process)
{
	struct thread *threads = calloc(options.threads, sizeof(*threads));
	int error = 0, fd = open(options.device, O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		give_up("cannot open the device", errno);
	} else if (!threads) {
		give_up("out of memory", ENOMEM);
	} else if (query_device(fd, &shared->workers[process * options.threads], process == 0)) {
		for (long long i = 0; i < options.threads && !error; i++) {
			threads[i].fd = fd;
			threads[i].number = process * options.threads + i;
			threads[i].worker = &shared->workers[threads[i].number];
			error = pthread_create(&threads[i].id, NULL, run_thread, &threads[i]);
			threads[i].started = !error;
		}
		if (error)
			give_up("cannot start a thread", error);
		join(threads);
	}
	free(threads);
	if (fd >= 0)
		close(fd);
}
