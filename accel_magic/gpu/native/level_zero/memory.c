/* Maps in memory of a Level Zero context, and what the notebook is told about the process. */
#define _GNU_SOURCE
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/api.h"
#include "../common/maps.h"
#include "../preload/preload.h"

enum { NAME = 256, LINE = 256 };

static struct {
	Handle chosen_context, chosen; /* of the module that is loaded now */
	Handle context, device;        /* of the maps */
	Handle list;                   /* copies at once, and waits */
	int is_integrated;
} memory;

struct calls ze;

int calls_find(void)
{
	int complete = 1;

#define FIND(name, symbol, arguments)                                         \
	if (!ze.name)                                                         \
		ze.name = (Result(*) arguments)preload_function(#symbol);     \
	complete &= ze.name != NULL;
	CALLED(FIND)
#undef FIND
	return complete;
}

static void trim(char *text)
{
	char *first = text, *end;

	while (*first == ' ')
		first++;
	memmove(text, first, strlen(first) + 1);
	for (end = text + strlen(text); end > text && end[-1] == ' ';)
		*--end = 0;
}

static int properties_of(Handle device, struct ze_device *properties)
{
	*properties = (struct ze_device){.kind = OF_DEVICE};
	if (!calls_find() || ze.device_properties(device, properties))
		return 0;
	properties->name[NAME - 1] = 0;
	trim(properties->name);
	return 1;
}

/* The notebook names OpenCL's device, with its platform behind a comma; here the same device has the same name. */
static int is_traced(const char *name)
{
	const char *wanted = getenv("ACCEL_MAGIC_OPENCL_DEVICE");
	size_t size = strlen(name);

	return wanted && !strncmp(wanted, name, size) && !strncmp(wanted + size, ", ", 2);
}

int memory_choose(Handle context, Handle device)
{
	struct ze_device properties;

	memory.chosen_context = context;
	memory.chosen = device;
	return properties_of(device, &properties) && is_traced(properties.name);
}

Handle memory_context(void)
{
	return memory.context;
}

int api_reachable(void)
{
	struct ring *ring = maps_ring();

	return ring && !atomic_load_explicit(&ring->gone, memory_order_relaxed) && memory.context &&
	       memory.chosen_context == memory.context && memory.chosen == memory.device;
}

int api_introduce(struct message *hello, char *text, size_t room)
{
	struct ze_device properties;
	char executable[4096] = "";

	memory.context = NULL;
	if (!properties_of(memory.chosen, &properties) ||
	    readlink("/proc/self/exe", executable, sizeof executable - 1) < 0)
		return 0;
	hello->a = (uint64_t)is_traced(properties.name);
	hello->b = 1;
	hello->c = hello->a | OF_LEVEL_ZERO;
	snprintf(text, room, "%s\n%s", properties.name, executable);
	if (hello->a) {
		memory.context = memory.chosen_context;
		memory.device = memory.chosen;
		memory.is_integrated = (properties.flags & DEVICE_INTEGRATED) != 0;
	}
	return 1;
}

int api_introduced(int placed)
{
	if (!placed)
		memory.context = NULL;
	return placed;
}

static Result find_list(void)
{
	struct ze_queue about = {.kind = OF_QUEUE, .mode = MODE_SYNCHRONOUS};
	Result (*create)(Handle, Handle, const struct ze_queue *, Handle *);

	if (memory.list)
		return ZE_SUCCESS;
	create = (Result(*)(Handle, Handle, const struct ze_queue *, Handle *))preload_function("zeCommandListCreateImmediate");
	return create ? create(memory.context, memory.device, &about, &memory.list) : ZE_UNSUPPORTED;
}

/* On devices that use the host's memory, all maps are there. */
int api_place(struct block *block, int in_device, int only_mapped)
{
	struct ze_device_memory of_device = {.kind = OF_DEVICE_MEMORY};
	struct ze_host_memory of_host = {.kind = OF_HOST_MEMORY};
	Result error;

	if (only_mapped)
		return (int)ZE_UNSUPPORTED;
	if (in_device && !memory.is_integrated) {
		block->kept = COPIED;
		error = find_list();
		if (!error)
			error = ze.device_memory(memory.context, &of_device, block->size, LINE, memory.device,
						 &block->memory);
		if (!error)
			error = ze.copy(memory.list, block->memory, block->file, block->size, NULL, 0, NULL);
	} else {
		block->kept = ALLOCATED;
		error = ze.host_memory(memory.context, &of_host, block->size, LINE, &block->memory);
		if (!error)
			memcpy(block->memory, block->file, block->size);
	}
	block->address = (uint64_t)(uintptr_t)block->memory;
	return (int)error;
}

void api_free(struct block *block)
{
	ze.free_memory(memory.context, block->memory);
}

int api_enter(void)
{
	return 1;
}

void api_leave(void)
{
}

int api_copy(struct block *block)
{
	return (int)ze.copy(memory.list, block->file, block->memory, block->size, NULL, 0, NULL);
}

/* The list of copies is synchronous. */
int api_copied(void)
{
	return 0;
}
