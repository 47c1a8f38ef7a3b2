/* SPDX-License-Identifier: Apache-2.0 */
/* Events: words in a buffer, set and reset by the device (lab_list.c) or by the program. */
#include <stdlib.h>
#include <unistd.h>

#include "lab_driver.h"

#define POLL_US 50

ze_result lab_zeEventPoolCreate(ze_context context, const struct ze_event_pool_description *description, uint32_t count,
				ze_device *devices, ze_event_pool *pool)
{
	(void)count, (void)devices; /* there is one device */
	if (!context)
		return ZE_INVALID_NULL_HANDLE;
	if (!description || !pool)
		return ZE_INVALID_NULL_POINTER;
	if (!description->count)
		return ZE_INVALID_SIZE;
	*pool = calloc(1, sizeof(**pool));
	if (!*pool)
		return ZE_OUT_OF_HOST_MEMORY;
	(*pool)->context = context;
	(*pool)->events = description->count;
	(*pool)->buffer = make_buffer(context, description->count * sizeof(uint64_t), NPU_BO_MAPPABLE);
	if ((*pool)->buffer)
		return ZE_SUCCESS;
	free(*pool);
	return ZE_OUT_OF_DEVICE_MEMORY;
}

ze_result lab_zeEventPoolDestroy(ze_event_pool pool)
{
	if (!pool)
		return ZE_INVALID_NULL_HANDLE;
	release(pool->buffer);
	free(pool);
	return ZE_SUCCESS;
}

ze_result lab_zeEventCreate(ze_event_pool pool, const struct ze_event_description *description, ze_event *event)
{
	if (!pool)
		return ZE_INVALID_NULL_HANDLE;
	if (!description || !event)
		return ZE_INVALID_NULL_POINTER;
	if (description->index >= pool->events)
		return ZE_INVALID_ARGUMENT;
	*event = calloc(1, sizeof(**event));
	if (!*event)
		return ZE_OUT_OF_HOST_MEMORY;
	(*event)->buffer = hold(pool->buffer);
	(*event)->word = (uint64_t *)pool->buffer->memory + description->index;
	*(*event)->word = 0;
	return ZE_SUCCESS;
}

ze_result lab_zeEventDestroy(ze_event event)
{
	if (!event)
		return ZE_INVALID_NULL_HANDLE;
	release(event->buffer);
	free(event);
	return ZE_SUCCESS;
}

static ze_result set(ze_event event, uint64_t value)
{
	if (!event)
		return ZE_INVALID_NULL_HANDLE;
	*event->word = value;
	return ZE_SUCCESS;
}

ze_result lab_zeEventHostSignal(ze_event event)
{
	return set(event, 1);
}

ze_result lab_zeEventHostReset(ze_event event)
{
	return set(event, 0);
}

ze_result lab_zeEventQueryStatus(ze_event event)
{
	if (!event)
		return ZE_INVALID_NULL_HANDLE;
	return *event->word ? ZE_SUCCESS : ZE_NOT_READY;
}

ze_result lab_zeEventHostSynchronize(ze_event event, uint64_t timeout_ns)
{
	int64_t deadline = deadline_after(timeout_ns);
	ze_result result = lab_zeEventQueryStatus(event);

	while (result == ZE_NOT_READY && now_ns() < deadline) {
		usleep(POLL_US);
		result = lab_zeEventQueryStatus(event);
	}
	return result;
}
