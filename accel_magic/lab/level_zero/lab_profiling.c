/* SPDX-License-Identifier: Apache-2.0 */
/* Times of layers: each execution has the device write them to a slot of a pool. */
#include <stdlib.h>
#include <string.h>

#include "lab_driver.h"

struct npu_pool {
	struct ze_context *context;
	uint32_t slots;
	char *memory; /* NPU memory */
};

struct npu_slot {
	uint64_t layers, reserved;
	struct npu_layer layer[JOB_MOST_LAYERS];
};

_Static_assert(sizeof(struct npu_slot) == SLOT_SIZE, "a slot is as long as the device writes it");

ze_result lab_pfnProfilingPoolCreate(npu_graph graph, uint32_t slots, npu_pool *pool)
{
	struct ze_flags_description description = { .kind = ZE_KIND_HOST_MEMORY };
	void *memory;
	ze_result result;

	if (!graph)
		return ZE_INVALID_NULL_HANDLE;
	if (!pool)
		return ZE_INVALID_NULL_POINTER;
	result = lab_zeMemAllocHost(graph->context, &description, slots * sizeof(struct npu_slot), 0, &memory);
	if (result)
		return result;
	memset(memory, 0, slots * sizeof(struct npu_slot));
	*pool = calloc(1, sizeof(**pool));
	if (*pool) {
		**pool = (struct npu_pool){ graph->context, slots, memory };
		return ZE_SUCCESS;
	}
	lab_zeMemFree(graph->context, memory);
	return ZE_OUT_OF_HOST_MEMORY;
}

ze_result lab_pfnProfilingPoolDestroy(npu_pool pool)
{
	if (!pool)
		return ZE_INVALID_NULL_HANDLE;
	lab_zeMemFree(pool->context, pool->memory);
	free(pool);
	return ZE_SUCCESS;
}

/* A query is its slot. */
ze_result lab_pfnProfilingQueryCreate(npu_pool pool, uint32_t index, npu_slot *query)
{
	if (!pool)
		return ZE_INVALID_NULL_HANDLE;
	if (!query)
		return ZE_INVALID_NULL_POINTER;
	if (index >= pool->slots)
		return ZE_INVALID_ARGUMENT;
	*query = (npu_slot)(pool->memory + index * sizeof(struct npu_slot));
	return ZE_SUCCESS;
}

ze_result lab_pfnProfilingQueryDestroy(npu_slot query)
{
	return query ? ZE_SUCCESS : ZE_INVALID_NULL_HANDLE;
}

ze_result lab_pfnProfilingQueryGetData(npu_slot query, uint32_t type, uint32_t *size, uint8_t *data)
{
	size_t known;

	if (!query)
		return ZE_INVALID_NULL_HANDLE;
	if (!size)
		return ZE_INVALID_NULL_POINTER;
	if (type != NPU_LAYERS)
		return ZE_UNSUPPORTED_FEATURE;
	known = (query->layers < JOB_MOST_LAYERS ? query->layers : JOB_MOST_LAYERS) * sizeof(*query->layer);
	if (data)
		memcpy(data, query->layer, *size < known ? *size : known);
	*size = (uint32_t)known;
	return ZE_SUCCESS;
}

ze_result lab_pfnDeviceGetProfilingDataProperties(ze_device device, struct npu_profiling_properties *properties)
{
	if (!device)
		return ZE_INVALID_NULL_HANDLE;
	if (!properties)
		return ZE_INVALID_NULL_POINTER;
	properties->version = ZE_VERSION(1, 0);
	return ZE_SUCCESS;
}

ze_result lab_pfnProfilingLogGetString(npu_slot query, uint32_t *size, char *text)
{
	return query ? lab_pfnBuildLogGetString(NULL, size, text) : ZE_INVALID_NULL_HANDLE;
}
