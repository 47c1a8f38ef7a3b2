/* SPDX-License-Identifier: Apache-2.0 */
/* Command lists. Closing a list writes its commands to a command buffer, in the format of the lab's device. */
#include <stdlib.h>
#include <string.h>

#include "lab_driver.h"

/* Approximate sizes, in bytes, in Intel's driver: a command buffer here is at least as large. */
#define HEADER_SIZE 320
#define COMMAND_SIZE 40

static bool is_empty(const struct ze_list *list)
{
	return !list->job || !list->job->commands;
}

ze_result lab_zeCommandListCreate(ze_context context, ze_device device, const struct ze_ordinal_description *description,
				  ze_list *list)
{
	if (!context || !device)
		return ZE_INVALID_NULL_HANDLE;
	if (!description || !list)
		return ZE_INVALID_NULL_POINTER;
	if (description->ordinal)
		return ZE_INVALID_ARGUMENT;
	*list = calloc(1, sizeof(**list));
	if (!*list)
		return ZE_OUT_OF_HOST_MEMORY;
	(*list)->context = context;
	return ZE_SUCCESS;
}

ze_result lab_zeCommandListCreateImmediate(ze_context context, ze_device device,
					   const struct ze_queue_description *description, ze_list *list)
{
	struct ze_ordinal_description own = { .kind = ZE_KIND_LIST };
	struct ze_queue *queue;
	ze_result result;

	if (!list)
		return ZE_INVALID_NULL_POINTER;
	result = lab_zeCommandQueueCreate(context, device, description, &queue);
	if (result)
		return result;
	result = lab_zeCommandListCreate(context, device, &own, list);
	if (result)
		lab_zeCommandQueueDestroy(queue);
	else
		(*list)->queue = queue;
	return result;
}

/* The buffers of a list: those that its commands name. */

static bool uses(const struct ze_list *list, const struct buffer *buffer)
{
	for (uint32_t i = 0; i < list->uses; i++)
		if (list->used[i] == buffer)
			return true;
	return false;
}

static bool use(struct ze_list *list, struct buffer *buffer)
{
	if (!buffer || uses(list, buffer))
		return true;
	if (list->uses == MOST_BUFFERS)
		return false;
	list->used[list->uses++] = hold(buffer);
	return true;
}

static bool covers(const struct buffer *buffer, uint64_t address)
{
	return address >= buffer->address && address - buffer->address < buffer->size;
}

/* Add the buffers of a command; memory that was freed stays usable while a list holds it. */
static ze_result use_all(struct ze_list *list, uint32_t count, const struct job_span *spans)
{
	ze_result result = ZE_SUCCESS;

	pthread_mutex_lock(&list->context->lock);
	for (uint32_t i = 0; i < count && !result; i++) {
		struct buffer *buffer = list->context->buffers;

		while (buffer && !covers(buffer, spans[i].address))
			buffer = buffer->next;
		if (!use(list, buffer))
			result = ZE_OUT_OF_HOST_MEMORY;
	}
	pthread_mutex_unlock(&list->context->lock);
	return result;
}

/* Appending */

ze_result append(struct ze_list *list, enum job_kind kind, uint32_t graph, uint32_t count, const struct job_span *spans)
{
	const struct job_header empty = { .magic = JOB_MAGIC, .bytes = sizeof(empty) };
	uint64_t before = list->job ? list->job->bytes : sizeof(empty);
	uint64_t bytes = before + sizeof(struct job_command) + count * sizeof(*spans);
	struct job_header *grown;
	struct job_command *command;
	ze_result result;

	if (bytes > JOB_LARGEST)
		return ZE_UNSUPPORTED_SIZE;
	result = use_all(list, count, spans);
	if (result)
		return result;
	grown = realloc(list->job, bytes);
	if (!grown)
		return ZE_OUT_OF_HOST_MEMORY;
	if (!list->job)
		*grown = empty;
	list->job = grown;
	command = (struct job_command *)((char *)grown + before);
	*command = (struct job_command){ kind, graph, count, 0 };
	if (count)
		memcpy(command->span, spans, count * sizeof(*spans));
	grown->commands++;
	grown->bytes = bytes;
	list->changed = true;
	return ZE_SUCCESS;
}

static ze_result append_event(struct ze_list *list, enum job_kind kind, ze_event event)
{
	struct job_span span;
	ze_result result;

	if (!event)
		return ZE_INVALID_NULL_HANDLE;
	if (!use(list, event->buffer))
		return ZE_OUT_OF_HOST_MEMORY;
	span.address = event->buffer->address + (uint64_t)((char *)event->word - (char *)event->buffer->memory);
	span.size = sizeof(*event->word);
	result = append(list, kind, 0, 1, &span);
	return result;
}

/* An immediate list executes what was appended, and is empty again. */
static ze_result flush(struct ze_list *list)
{
	ze_result result;

	if (!list->queue)
		return ZE_SUCCESS;
	result = lab_zeCommandListClose(list);
	if (!result)
		result = lab_zeCommandQueueExecuteCommandLists(list->queue, 1, &list, NULL);
	lab_zeCommandListReset(list);
	return result;
}

/* A command that waits for events before and sets one after. */
ze_result append_between(struct ze_list *list, enum job_kind kind, uint32_t graph, uint32_t count,
			 const struct job_span *spans, ze_event signal, uint32_t waits_count, ze_event *waits)
{
	ze_result result = ZE_SUCCESS;

	if (list->closed)
		return ZE_INVALID_ARGUMENT;
	if (waits_count && !waits)
		return ZE_INVALID_NULL_POINTER;
	for (uint32_t i = 0; i < waits_count && !result; i++)
		result = append_event(list, JOB_WAIT, waits[i]);
	if (!result)
		result = append(list, kind, graph, count, spans);
	if (!result && signal)
		result = append_event(list, JOB_SIGNAL, signal);
	return result ? result : flush(list);
}

ze_result lab_zeCommandListAppendMemoryCopy(ze_list list, void *target, const void *source, size_t size, ze_event signal,
					    uint32_t count, ze_event *waits)
{
	struct job_span spans[2];
	ze_result result;

	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	if (!target || !source)
		return ZE_INVALID_NULL_POINTER;
	if (!size)
		return ZE_INVALID_ARGUMENT;
	result = span_of(list->context, target, size, &spans[0]);
	if (!result)
		result = span_of(list->context, source, size, &spans[1]);
	return result ? result : append_between(list, JOB_COPY, 0, 2, spans, signal, count, waits);
}

ze_result lab_zeCommandListAppendBarrier(ze_list list, ze_event signal, uint32_t count, ze_event *waits)
{
	return list ? append_between(list, JOB_BARRIER, 0, 0, NULL, signal, count, waits) : ZE_INVALID_NULL_HANDLE;
}

ze_result lab_zeCommandListAppendWriteGlobalTimestamp(ze_list list, uint64_t *target, ze_event signal, uint32_t count,
						      ze_event *waits)
{
	struct job_span span;
	ze_result result;

	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	if (!target)
		return ZE_INVALID_NULL_POINTER;
	result = span_of(list->context, target, sizeof(*target), &span);
	return result ? result : append_between(list, JOB_TIMESTAMP, 0, 1, &span, signal, count, waits);
}

static ze_result append_only_event(ze_list list, enum job_kind kind, uint32_t count, ze_event *events)
{
	ze_result result = ZE_SUCCESS;

	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	if (list->closed)
		return ZE_INVALID_ARGUMENT;
	if (!events)
		return ZE_INVALID_NULL_POINTER;
	for (uint32_t i = 0; i < count && !result; i++)
		result = append_event(list, kind, events[i]);
	return result ? result : flush(list);
}

ze_result lab_zeCommandListAppendSignalEvent(ze_list list, ze_event event)
{
	return append_only_event(list, JOB_SIGNAL, 1, &event);
}

ze_result lab_zeCommandListAppendEventReset(ze_list list, ze_event event)
{
	return append_only_event(list, JOB_RESET, 1, &event);
}

ze_result lab_zeCommandListAppendWaitOnEvents(ze_list list, uint32_t count, ze_event *events)
{
	return append_only_event(list, JOB_WAIT, count, events);
}

/* Closing and changing */

/* A list that was changed after it was closed is closed again; its command buffer is written anew if it fits. */
ze_result lab_zeCommandListClose(ze_list list)
{
	size_t size;

	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	list->closed = true;
	if (!list->changed)
		return ZE_SUCCESS;
	size = JOB_AT + list->job->bytes;
	if (!list->commands || list->commands->size < size) {
		size_t least = HEADER_SIZE + COMMAND_SIZE * list->job->commands;

		release(list->commands);
		list->commands = make_buffer(list->context, size < least ? least : size, NPU_BUFFER_COMMANDS);
		if (!list->commands)
			return ZE_OUT_OF_DEVICE_MEMORY;
		memset(list->commands->memory, 0, list->commands->size);
	}
	memcpy((char *)list->commands->memory + JOB_AT, list->job, list->job->bytes);
	list->changed = false;
	return ZE_SUCCESS;
}

static void drop_uses(struct ze_list *list)
{
	while (list->uses)
		release(list->used[--list->uses]);
}

ze_result lab_zeCommandListReset(ze_list list)
{
	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	release(list->commands);
	drop_uses(list);
	free(list->job);
	list->commands = NULL;
	list->job = NULL;
	*list->graph = 0;
	list->closed = list->changed = false;
	return ZE_SUCCESS;
}

ze_result lab_zeCommandListDestroy(ze_list list)
{
	struct ze_queue *queue = list ? list->queue : NULL;
	ze_result result = lab_zeCommandListReset(list);

	if (queue)
		lab_zeCommandQueueDestroy(queue);
	free(list);
	return result;
}

ze_result lab_zeCommandListHostSynchronize(ze_list list, uint64_t timeout_ns)
{
	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	return list->queue ? lab_zeCommandQueueSynchronize(list->queue, timeout_ns) : ZE_INVALID_ARGUMENT;
}

/* The number by which the next command can be changed later. */
ze_result lab_zeCommandListGetNextCommandIdExp(ze_list list, const void *description, uint64_t *number)
{
	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	if (!description || !number)
		return ZE_INVALID_NULL_POINTER;
	*number = is_empty(list) ? 0 : list->job->commands;
	return ZE_SUCCESS;
}

static struct job_command *next(struct job_command *command)
{
	return (struct job_command *)(command->span + command->spans);
}

/* Set an argument of the first execution from a number on: programs take the number before a barrier or timestamp. */
static ze_result change_argument(struct ze_list *list, const struct npu_argument_change *change)
{
	struct job_command *command = (struct job_command *)(list->job + 1);
	struct job_span span;
	ze_result result;

	for (uint32_t i = 0; i < list->job->commands; i++, command = next(command)) {
		if (i < change->command || command->kind != JOB_EXECUTE)
			continue;
		if (change->index >= command->spans)
			return ZE_INVALID_ARGUMENT;
		result = span_of(list->context, change->value, command->span[change->index].size, &span);
		if (!result)
			command->span[change->index] = span;
		return result;
	}
	return ZE_INVALID_ARGUMENT;
}

ze_result lab_zeCommandListUpdateMutableCommandsExp(ze_list list, const struct npu_changes *changes)
{
	struct job_command *command;
	ze_result result = ZE_SUCCESS;

	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	if (!changes)
		return ZE_INVALID_NULL_POINTER;
	if (is_empty(list))
		return ZE_INVALID_ARGUMENT;
	for (const struct npu_argument_change *change = changes->next; change && !result; change = change->next)
		result = change_argument(list, change);
	list->changed = true;
	drop_uses(list);
	command = (struct job_command *)(list->job + 1);
	for (uint32_t i = 0; i < list->job->commands && !result; i++, command = next(command))
		result = use_all(list, command->spans, command->span);
	return result;
}
