/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and fences. Executing a list submits its command buffer and the buffers that it uses. Waiting for a fence or a
 * queue waits for its command buffers with BO_WAIT.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "lab_driver.h"

#define SECOND 1000000000ll
#define BUSY_WAIT_US 100
#define BUSY_MOST_NS (2 * SECOND) /* the kernel's limit for a job: by then a full queue has space */

int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * SECOND + time.tv_nsec;
}

int64_t deadline_after(uint64_t timeout_ns)
{
	int64_t now = now_ns();

	return timeout_ns > (uint64_t)(INT64_MAX - now) ? INT64_MAX : now + (int64_t)timeout_ns;
}

/* Faults */

static atomic_llong submissions;

/* Write the fault request to the command buffer if this submission is to fail; otherwise clear an earlier request. */
static void request_fault(struct buffer *commands)
{
	struct npu_fault fault = { .magic = NPU_FAULT_MAGIC };
	long long every, at, number = atomic_fetch_add(&submissions, 1) + 1;
	const char *text = getenv(LAB_FAULT);

	if (!text || sscanf(text, "%" SCNu32 " %" SCNu64 " %lld %lld", &fault.kind, &fault.argument, &every, &at) != 4 ||
	    !(at ? number == at : every && number % every == 0))
		fault = (struct npu_fault){ 0 };
	memcpy(commands->memory, &fault, sizeof(fault));
}

/* Jobs */

static void forget(struct jobs *jobs)
{
	while (jobs->count)
		release(jobs->commands[--jobs->count]);
	free(jobs->commands);
	jobs->commands = NULL;
}

static bool remember(struct jobs *jobs, struct buffer *commands)
{
	struct buffer **grown = realloc(jobs->commands, (jobs->count + 1) * sizeof(struct buffer *));

	if (!grown)
		return false;
	jobs->commands = grown;
	jobs->commands[jobs->count++] = hold(commands);
	return true;
}

static ze_result wait_for(const struct jobs *jobs, int64_t deadline_ns)
{
	ze_result result = ZE_SUCCESS;

	for (uint32_t i = 0; i < jobs->count; i++) {
		struct npu_bo_wait wait = { .handle = jobs->commands[i]->handle, .deadline_ns = deadline_ns };
		int failed;

		do
			failed = ioctl(jobs->commands[i]->fd, NPU_IOCTL_BO_WAIT, &wait);
		while (failed && (errno == EINTR || errno == EAGAIN));
		if (failed)
			return errno == ETIMEDOUT ? ZE_NOT_READY : ZE_DEVICE_LOST;
		if (wait.job_status && !result)
			result = wait.job_status == NPU_JOB_ABORTED ? ZE_DEVICE_LOST : ZE_UNKNOWN;
	}
	return result;
}

/* Queues */

static uint32_t kernel_priority(uint32_t priority)
{
	switch (priority) {
	case ZE_PRIORITY_LOW: return NPU_PRIORITY_IDLE;
	case ZE_PRIORITY_HIGH: return NPU_PRIORITY_REALTIME;
	default: return NPU_PRIORITY_NORMAL;
	}
}

ze_result lab_zeCommandQueueCreate(ze_context context, ze_device device, const struct ze_queue_description *description,
				   ze_queue *queue)
{
	struct npu_cmdq_create create = { 0 };

	if (!context || !device)
		return ZE_INVALID_NULL_HANDLE;
	if (!description || !queue)
		return ZE_INVALID_NULL_POINTER;
	if (description->ordinal)
		return ZE_INVALID_ARGUMENT;
	*queue = calloc(1, sizeof(**queue));
	if (!*queue)
		return ZE_OUT_OF_HOST_MEMORY;
	create.priority = kernel_priority(description->priority);
	if (device->queues && ioctl(context->fd, NPU_IOCTL_CMDQ_CREATE, &create)) {
		free(*queue);
		return ZE_UNINITIALIZED;
	}
	(*queue)->context = context;
	(*queue)->id = create.queue;
	(*queue)->priority = create.priority;
	(*queue)->synchronous = description->mode == ZE_QUEUE_SYNCHRONOUS;
	pthread_mutex_init(&(*queue)->lock, NULL);
	return ZE_SUCCESS;
}

ze_result lab_zeCommandQueueDestroy(ze_queue queue)
{
	if (!queue)
		return ZE_INVALID_NULL_HANDLE;
	while (queue->fences)
		lab_zeFenceDestroy(queue->fences);
	forget(&queue->jobs);
	release(queue->preemption);
	if (queue->id) {
		struct npu_cmdq_destroy destroy = { queue->id };

		ioctl(queue->context->fd, NPU_IOCTL_CMDQ_DESTROY, &destroy);
	}
	pthread_mutex_destroy(&queue->lock);
	free(queue);
	return ZE_SUCCESS;
}

static int submit_once(struct ze_queue *queue, uint32_t *handles, uint32_t count)
{
	struct npu_cmdq_submit to_queue = { .buffers = (uintptr_t)handles, .buffer_count = count, .queue = queue->id,
					    .preempt_buffer_index = queue->preemption ? count - 1 : 0 };
	struct npu_submit to_engine = { .buffers = (uintptr_t)handles, .buffer_count = count,
					.engine = NPU_ENGINE_COMPUTE, .priority = queue->priority };

	return queue->id ? ioctl(queue->context->fd, NPU_IOCTL_CMDQ_SUBMIT, &to_queue)
			 : ioctl(queue->context->fd, NPU_IOCTL_SUBMIT, &to_engine);
}

__attribute__((noinline)) void npu_lab_inference(const char *graph)
{
	__asm__ volatile("" : : "r"(graph));
}

/* Submit a list: its command buffer first, then the buffers it uses, then the preemption buffer. */
static ze_result submit(struct ze_queue *queue, const struct ze_list *list)
{
	int64_t give_up_ns = now_ns() + BUSY_MOST_NS;
	uint32_t handles[MOST_BUFFERS + 2], count = 0;

	handles[count++] = list->commands->handle;
	for (uint32_t i = 0; i < list->uses; i++)
		handles[count++] = list->used[i]->handle;
	if (queue->preemption)
		handles[count++] = queue->preemption->handle;
	request_fault(list->commands);
	for (;;) {
		if (*list->graph)
			npu_lab_inference(list->graph);
		if (!submit_once(queue, handles, count))
			return ZE_SUCCESS;
		if (errno != EBUSY || now_ns() > give_up_ns)
			return errno == EBADFD || errno == ENODEV ? ZE_DEVICE_LOST : ZE_UNKNOWN;
		usleep(BUSY_WAIT_US);
	}
}

static ze_result check_lists(uint32_t count, ze_list *lists)
{
	if (!lists)
		return ZE_INVALID_NULL_POINTER;
	for (uint32_t i = 0; i < count; i++) {
		if (!lists[i])
			return ZE_INVALID_NULL_POINTER;
		if (lists[i]->changed)
			return ZE_UNINITIALIZED; /* not closed */
	}
	return count ? ZE_SUCCESS : ZE_INVALID_SIZE;
}

static ze_result submit_all(struct ze_queue *queue, uint32_t count, ze_list *lists, struct jobs *jobs)
{
	ze_result result = ZE_SUCCESS;

	for (uint32_t i = 0; i < count && !result; i++) {
		if (!lists[i]->commands)
			continue;
		result = submit(queue, lists[i]);
		if (!result && !remember(jobs, lists[i]->commands))
			result = ZE_OUT_OF_HOST_MEMORY;
	}
	return result;
}

ze_result lab_zeCommandQueueExecuteCommandLists(ze_queue queue, uint32_t count, ze_list *lists, ze_fence fence)
{
	const struct ze_device *device = queue ? queue->context->device : NULL;
	ze_result result = queue ? check_lists(count, lists) : ZE_INVALID_NULL_HANDLE;

	if (result)
		return result;
	if (fence && fence->queue != queue)
		return ZE_INVALID_SYNCHRONIZATION_OBJECT;
	if (!queue->preemption && queue->id && device->preemption_size)
		queue->preemption = make_buffer(queue->context, device->preemption_size, NPU_BUFFER_PREEMPTION);
	if (fence)
		forget(&fence->jobs);
	result = submit_all(queue, count, lists, fence ? &fence->jobs : &queue->jobs);
	if (fence && !result && !fence->jobs.count)
		fence->signaled = true;
	if (!result && queue->synchronous)
		result = lab_zeCommandQueueSynchronize(queue, ZE_FOREVER);
	return result;
}

/* Fences */

static ze_result wait_for_fence(struct ze_fence *fence, int64_t deadline_ns)
{
	ze_result result = wait_for(&fence->jobs, deadline_ns);

	if (!result && fence->jobs.count) {
		forget(&fence->jobs);
		fence->signaled = true;
	}
	return result;
}

ze_result lab_zeCommandQueueSynchronize(ze_queue queue, uint64_t timeout_ns)
{
	int64_t deadline_ns = deadline_after(timeout_ns);
	ze_result result = ZE_SUCCESS;

	if (!queue)
		return ZE_INVALID_NULL_HANDLE;
	pthread_mutex_lock(&queue->lock);
	for (struct ze_fence *fence = queue->fences; fence && !result; fence = fence->next)
		result = wait_for_fence(fence, deadline_ns);
	if (!result)
		result = wait_for(&queue->jobs, deadline_ns);
	if (!result)
		forget(&queue->jobs);
	pthread_mutex_unlock(&queue->lock);
	return result;
}

ze_result lab_zeFenceCreate(ze_queue queue, const struct ze_flags_description *description, ze_fence *fence)
{
	struct ze_fence *made;

	if (!queue)
		return ZE_INVALID_NULL_HANDLE;
	if (!description || !fence)
		return ZE_INVALID_NULL_POINTER;
	made = calloc(1, sizeof(*made));
	if (!made)
		return ZE_OUT_OF_HOST_MEMORY;
	made->queue = queue;
	made->signaled = description->flags & ZE_FENCE_SIGNALED;
	pthread_mutex_lock(&queue->lock);
	made->next = queue->fences;
	queue->fences = made;
	pthread_mutex_unlock(&queue->lock);
	*fence = made;
	return ZE_SUCCESS;
}

ze_result lab_zeFenceHostSynchronize(ze_fence fence, uint64_t timeout_ns)
{
	if (!fence)
		return ZE_INVALID_NULL_HANDLE;
	if (fence->signaled)
		return ZE_SUCCESS;
	return fence->jobs.count ? wait_for_fence(fence, deadline_after(timeout_ns)) : ZE_NOT_READY;
}

ze_result lab_zeFenceQueryStatus(ze_fence fence)
{
	return lab_zeFenceHostSynchronize(fence, 0);
}

ze_result lab_zeFenceReset(ze_fence fence)
{
	if (!fence)
		return ZE_INVALID_NULL_HANDLE;
	fence->signaled = false;
	return ZE_SUCCESS;
}

ze_result lab_zeFenceDestroy(ze_fence fence)
{
	struct ze_fence **place;

	if (!fence)
		return ZE_INVALID_NULL_HANDLE;
	pthread_mutex_lock(&fence->queue->lock);
	for (place = &fence->queue->fences; *place != fence; place = &(*place)->next)
		;
	*place = fence->next;
	pthread_mutex_unlock(&fence->queue->lock);
	forget(&fence->jobs);
	free(fence);
	return ZE_SUCCESS;
}

/* The driver's own jobs */

static ze_result own_queue(struct ze_context *context, struct ze_queue **queue)
{
	struct ze_queue_description description = { .kind = ZE_KIND_QUEUE, .mode = ZE_QUEUE_DEFAULT };
	ze_result result = ZE_SUCCESS;

	pthread_mutex_lock(&context->lock);
	if (!context->queue)
		result = lab_zeCommandQueueCreate(context, &lab_device, &description, &context->queue);
	*queue = context->queue;
	pthread_mutex_unlock(&context->lock);
	return result;
}

ze_result run_command(struct ze_context *context, enum job_kind kind, uint32_t graph, uint32_t count,
		      const struct job_span *spans)
{
	struct ze_flags_description description = { .kind = ZE_KIND_FENCE };
	struct ze_list list = { .context = context }, *lists = &list;
	struct ze_queue *queue;
	ze_fence fence = NULL;
	ze_result result = own_queue(context, &queue);

	if (!result)
		result = append(&list, kind, graph, count, spans);
	if (!result)
		result = lab_zeCommandListClose(&list);
	if (!result)
		result = lab_zeFenceCreate(queue, &description, &fence);
	if (!result)
		result = lab_zeCommandQueueExecuteCommandLists(queue, 1, &lists, fence);
	if (!result)
		result = lab_zeFenceHostSynchronize(fence, ZE_FOREVER);
	if (fence)
		lab_zeFenceDestroy(fence);
	lab_zeCommandListReset(&list);
	return result;
}
