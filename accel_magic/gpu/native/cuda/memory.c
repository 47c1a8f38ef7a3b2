/* Maps in memory of a CUDA context, and what the notebook is told about the process. */
#define _GNU_SOURCE
#include "memory.h"

#include <string.h>
#include <unistd.h>

#include "../common/api.h"
#include "../common/maps.h"

static struct {
	Handle context;
	Handle stream;
	int devices;
	int is_pushed; /* whether introducing has made a context current */
	int captures;  /* the mode of captures before introducing, or the one then */
	int is_found;
} memory;

Handle memory_context(void)
{
	return memory.context;
}

int api_reachable(void)
{
	struct ring *ring = maps_ring();
	Handle current = NULL;

	if (!ring || atomic_load_explicit(&ring->gone, memory_order_relaxed))
		return 0;
	driver.ctx_get_current(&current);
	return !current || current == memory.context || memory.devices > 1;
}

/* Calls of this library must not affect captures of the program. */
static void exchange_capture_mode(void)
{
	if (driver.capture_mode)
		driver.capture_mode(&memory.captures);
}

/* Make a context current if there is none; 0 on failure. */
static int enter_context(void)
{
	int device;

	if (driver.ctx_get_current(&memory.context))
		return 0;
	if (memory.context)
		return 1;
	/* Libraries can be loaded without a context; the runtime uses the primary context of the first device. */
	if (driver.device_get(&device, 0) || driver.primary_retain(&memory.context, device))
		return 0;
	memory.is_pushed = !driver.ctx_push(memory.context);
	return memory.is_pushed;
}

int api_introduce(struct message *hello, char *text, size_t room)
{
	int device, major = 0, minor = 0;

	memset(&memory, 0, sizeof memory);
	memory.captures = CAPTURE_RELAXED;
	memory.is_found = driver_find();
	if (!memory.is_found)
		return 0;
	exchange_capture_mode();
	if (!enter_context() || driver.ctx_get_device(&device) ||
	    driver.device_attribute(&major, CAPABILITY_MAJOR, device) ||
	    driver.device_attribute(&minor, CAPABILITY_MINOR, device) || driver.device_count(&memory.devices))
		return 0;
	hello->a = (uint64_t)(major * 10 + minor);
	hello->b = (uint64_t)memory.devices;
	return readlink("/proc/self/exe", text, room - 1) >= 0;
}

int api_introduced(int placed)
{
	Handle popped;

	if (placed)
		placed = !driver.stream_create(&memory.stream, NON_BLOCKING);
	if (memory.is_pushed)
		driver.ctx_pop(&popped);
	if (memory.is_found)
		exchange_capture_mode();
	if (!placed)
		memory.context = NULL;
	return placed;
}

static CUresult place_in_device(struct block *block)
{
	CUresult error = driver.mem_alloc(&block->address, block->size);

	block->kept = COPIED;
	if (!error)
		error = driver.to_device(block->address, block->file, block->size);
	return error;
}

static CUresult place_in_host(struct block *block, int only_mapped)
{
	CUresult error = NOT_SUPPORTED;

	if (driver.host_register && driver.host_unregister)
		error = driver.host_register(block->file, block->size, HOST_PORTABLE | HOST_DEVICEMAP);

	block->kept = MAPPED;
	if (!error)
		return driver.host_address(&block->address, block->file, 0);
	if (only_mapped)
		return error;
	block->kept = ALLOCATED;
	error = driver.host_alloc(&block->memory, block->size, HOST_PORTABLE | HOST_DEVICEMAP);
	if (error)
		return error;
	memcpy(block->memory, block->file, block->size);
	return driver.host_address(&block->address, block->memory, 0);
}

int api_place(struct block *block, int in_device, int only_mapped)
{
	/* Only portable host memory can be accessed by every device. */
	if (in_device && memory.devices == 1)
		return place_in_device(block);
	return place_in_host(block, only_mapped);
}

void api_free(struct block *block)
{
	if (block->kept == COPIED)
		driver.mem_free(block->address);
	else if (block->kept == MAPPED)
		driver.host_unregister(block->file);
	else
		driver.host_free(block->memory);
}

int api_enter(void)
{
	int relaxed = CAPTURE_RELAXED;

	if (driver.capture_mode)
		driver.capture_mode(&relaxed);
	return !driver.ctx_push(memory.context);
}

void api_leave(void)
{
	Handle context;

	driver.ctx_pop(&context);
}

int api_copy(struct block *block)
{
	return driver.to_host(block->file, block->address, block->size, memory.stream);
}

int api_copied(void)
{
	return driver.stream_wait(memory.stream);
}
