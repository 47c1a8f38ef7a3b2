/* SPDX-License-Identifier: Apache-2.0 */
/* Command lists. Closing a list creates its command buffer, which stays zeroed: the emulated NPU executes nothing. */
#include <stdlib.h>
#include <string.h>

#include "lab_driver.h"

/* Approximate sizes, in bytes, in Intel's driver. */
#define HEADER_SIZE 320
#define COMMAND_SIZE 40

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

static bool uses(const struct ze_list *list, const struct buffer *buffer)
{
	for (uint32_t i = 0; i < list->uses; i++)
		if (list->used[i] == buffer)
			return true;
	return false;
}

/* Add the buffer of an address to the list. Memory outside of any buffer is accepted too, because nothing is copied. */
static bool use(struct ze_list *list, const void *address)
{
	struct buffer *buffer = find_buffer(list->context, address);

	if (!buffer || uses(list, buffer)) {
		release(buffer);
		return true;
	}
	if (list->uses == MOST_BUFFERS) {
		release(buffer);
		return false;
	}
	list->used[list->uses++] = buffer;
	return true;
}

ze_result lab_zeCommandListAppendMemoryCopy(ze_list list, void *target, const void *source, size_t size, void *signal,
					    uint32_t count, void *waits)
{
	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	if (!target || !source)
		return ZE_INVALID_NULL_POINTER;
	if (list->commands || !size)
		return ZE_INVALID_ARGUMENT;
	if (signal || count || waits)
		return ZE_UNSUPPORTED_FEATURE;
	if (!use(list, source) || !use(list, target))
		return ZE_OUT_OF_HOST_MEMORY;
	list->appended++;
	return ZE_SUCCESS;
}

ze_result lab_zeCommandListAppendBarrier(ze_list list, void *signal, uint32_t count, void *waits)
{
	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	if (list->commands)
		return ZE_INVALID_ARGUMENT;
	if (signal || count || waits)
		return ZE_UNSUPPORTED_FEATURE;
	list->appended++;
	return ZE_SUCCESS;
}

ze_result lab_zeCommandListClose(ze_list list)
{
	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	if (list->commands || !list->appended)
		return ZE_SUCCESS;
	list->commands = make_buffer(list->context, HEADER_SIZE + COMMAND_SIZE * list->appended, NPU_BUFFER_COMMANDS);
	if (!list->commands)
		return ZE_OUT_OF_DEVICE_MEMORY;
	memset(list->commands->memory, 0, list->commands->size);
	return ZE_SUCCESS;
}

ze_result lab_zeCommandListReset(ze_list list)
{
	if (!list)
		return ZE_INVALID_NULL_HANDLE;
	release(list->commands);
	while (list->uses)
		release(list->used[--list->uses]);
	list->commands = NULL;
	list->appended = 0;
	return ZE_SUCCESS;
}

ze_result lab_zeCommandListDestroy(ze_list list)
{
	ze_result result = lab_zeCommandListReset(list);

	free(list);
	return result;
}
