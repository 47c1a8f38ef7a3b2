/* Maps where kernels of the traced device can access them, and what the notebook is told about the process.
 *
 * In this order: the notebook's files themselves, if the device accesses all memory of the host; unified shared memory,
 * in the device and in the host; shared virtual memory in buffers. The last two belong to the first context.
 */
#define _GNU_SOURCE
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/api.h"
#include "../common/maps.h"

enum { MOST_DEVICES = 64, MOST_BLOCKS = 256, MOST_POINTERS = 4096, NAME = 256, ALIGNMENT = 128, LINE = 256 };

enum sharing { NONE, SYSTEM, UNIFIED, BUFFERS };

typedef void *HostAlloc(Handle context, const intptr_t *properties, size_t size, unsigned alignment, int *error);
typedef void *DeviceAlloc(Handle context, Handle device, const intptr_t *properties, size_t size, unsigned alignment,
			  int *error);
typedef int MemFree(Handle context, void *memory);
typedef int Memcpy(Handle queue, unsigned blocking, void *to, const void *from, size_t size, unsigned count,
		   const Handle *events, Handle *event);

static struct {
	Handle chosen;  /* the context of the module that is loaded now */
	Handle context; /* of the maps */
	Handle device;
	Handle queue;
	enum sharing sharing;
	HostAlloc *host_alloc;
	DeviceAlloc *device_alloc;
	MemFree *free;
	Memcpy *copy;
	void *blocks[MOST_BLOCKS];
	unsigned count;
} memory;

/* Remove spaces around a text that was read with this error. */
static void trim(int error, char *text)
{
	char *first = text, *end;

	if (error)
		*text = 0;
	text[NAME - 1] = 0;
	while (*first == ' ')
		first++;
	memmove(text, first, strlen(first) + 1);
	for (end = text + strlen(text); end > text && end[-1] == ' ';)
		*--end = 0;
}

/* The platform and the device, as the notebook writes them. */
static void name_of(Handle device, char *name)
{
	char of_platform[NAME] = "", of_device[NAME] = "";
	Handle platform = NULL;

	if (!READ(clGetDeviceInfo, device, DEVICE_PLATFORM, platform))
		return;
	trim(BELOW(clGetPlatformInfo)(platform, PLATFORM_NAME, NAME, of_platform, NULL), of_platform);
	trim(BELOW(clGetDeviceInfo)(device, DEVICE_NAME, NAME, of_device, NULL), of_device);
	snprintf(name, 2 * NAME, "%s, %s", of_device, of_platform);
}

static int devices_of(Handle context, Handle *devices)
{
	size_t size = 0;

	if (BELOW(clGetContextInfo)(context, CONTEXT_DEVICES, MOST_DEVICES * sizeof *devices, devices, &size))
		return 0;
	return (int)(size / sizeof *devices);
}

static Handle traced_device(Handle context)
{
	const char *wanted = getenv("ACCEL_MAGIC_OPENCL_DEVICE");
	Handle devices[MOST_DEVICES];
	char name[2 * NAME];
	int count = devices_of(context, devices);

	for (int i = 0; wanted && i < count; i++) {
		name_of(devices[i], name);
		if (!strcmp(name, wanted))
			return devices[i];
	}
	return NULL;
}

static int has_extension(Handle device, const char *name)
{
	size_t size = 0;
	char *all;
	int has;

	if (BELOW(clGetDeviceInfo)(device, DEVICE_EXTENSIONS, 0, NULL, &size) || !(all = calloc(1, size + 1)))
		return 0;
	has = !BELOW(clGetDeviceInfo)(device, DEVICE_EXTENSIONS, size, all, NULL) && strstr(all, name);
	free(all);
	return has;
}

static int find_unified(Handle device)
{
	if (!has_extension(device, "cl_intel_unified_shared_memory"))
		return 0;
	memory.host_alloc = (HostAlloc *)extension(device, "clHostMemAllocINTEL");
	memory.device_alloc = (DeviceAlloc *)extension(device, "clDeviceMemAllocINTEL");
	memory.free = (MemFree *)extension(device, "clMemFreeINTEL");
	memory.copy = (Memcpy *)extension(device, "clEnqueueMemcpyINTEL");
	return memory.host_alloc && memory.device_alloc && memory.free && memory.copy;
}

static enum sharing sharing_of(Handle device)
{
	uint64_t svm = 0;

	if (!READ(clGetDeviceInfo, device, DEVICE_SVM, svm))
		svm = 0;
	if ((svm & FINE_GRAIN_SYSTEM) && (svm & SVM_ATOMICS))
		return SYSTEM;
	if (find_unified(device))
		return UNIFIED;
	return (svm & FINE_GRAIN_BUFFER) && (svm & SVM_ATOMICS) && BELOW(clSVMAlloc) ? BUFFERS : NONE;
}

int memory_choose(Handle context)
{
	memory.chosen = context;
	return traced_device(context) != NULL;
}

Handle memory_device(void)
{
	return memory.device;
}

int api_reachable(void)
{
	struct ring *ring = maps_ring();

	if (!ring || atomic_load_explicit(&ring->gone, memory_order_relaxed) || !memory.device)
		return 0;
	return memory.sharing == SYSTEM ? traced_device(memory.chosen) == memory.device
					: memory.chosen == memory.context;
}

int api_introduce(struct message *hello, char *text, size_t room)
{
	char name[2 * NAME] = "", executable[4096] = "";
	Handle devices[MOST_DEVICES], device = traced_device(memory.chosen);

	memory.device = NULL;
	memory.count = 0;
	if (readlink("/proc/self/exe", executable, sizeof executable - 1) < 0)
		return 0;
	if (device)
		memory.sharing = sharing_of(device);
	hello->a = device && memory.sharing != NONE;
	hello->b = 1;
	hello->c = device != NULL;
	if (hello->a) {
		memory.device = device;
		memory.context = memory.chosen;
	}
	if (!device && devices_of(memory.chosen, devices) > 0)
		device = devices[0];
	if (device)
		name_of(device, name);
	snprintf(text, room, "%s\n%s", name, executable);
	return 1;
}

int api_introduced(int placed)
{
	/* The maps' context must live as long as they do. */
	if (placed && memory.sharing != SYSTEM)
		placed = !BELOW(clRetainContext)(memory.context);
	if (!placed)
		memory.device = NULL;
	return placed;
}

/* Allocate memory of the context; its address is a multiple of a cache line of any device. */
static void *allocate(size_t size, int in_device, int *error)
{
	uint64_t flags = MEMORY_READ_WRITE | MEMORY_FINE_GRAIN | MEMORY_ATOMICS;
	char *start;

	if (memory.sharing == BUFFERS) {
		/* Drivers take no larger alignment. */
		start = BELOW(clSVMAlloc)(memory.context, flags, size + LINE, ALIGNMENT);
		*error = start ? SUCCESS : OUT_OF_HOST_MEMORY;
		return start;
	}
	if (in_device)
		return memory.device_alloc(memory.context, memory.device, NULL, size + LINE, 0, error);
	return memory.host_alloc(memory.context, NULL, size + LINE, 0, error);
}

int api_place(struct block *block, int in_device, int only_mapped)
{
	int error = SUCCESS;
	void *start;

	if (memory.sharing == SYSTEM) {
		block->address = (uint64_t)(uintptr_t)block->file;
		block->kept = MAPPED;
		return SUCCESS;
	}
	if (only_mapped || memory.count >= MOST_BLOCKS)
		return NOT_SUPPORTED;
	in_device &= memory.sharing == UNIFIED;
	start = allocate(block->size, in_device, &error);
	if (!start || error)
		return error ? error : OUT_OF_HOST_MEMORY;
	memory.blocks[memory.count++] = start;
	block->memory = (void *)(((uintptr_t)start + LINE - 1) & ~(uintptr_t)(LINE - 1));
	block->address = (uint64_t)(uintptr_t)block->memory;
	block->kept = in_device ? COPIED : ALLOCATED;
	if (!in_device) {
		memcpy(block->memory, block->file, block->size);
		return SUCCESS;
	}
	if (!memory.queue)
		memory.queue = BELOW(clCreateCommandQueue)(memory.context, memory.device, 0, &error);
	return error ? error : memory.copy(memory.queue, TRUE_, block->memory, block->file, block->size, 0, NULL, NULL);
}

void api_free(struct block *block)
{
	for (unsigned i = 0; i < memory.count; i++) {
		char *start = memory.blocks[i];

		if ((char *)block->memory < start || (char *)block->memory >= start + LINE)
			continue;
		if (memory.sharing == UNIFIED)
			memory.free(memory.context, start);
		else
			BELOW(clSVMFree)(memory.context, start);
		memory.blocks[i] = memory.blocks[--memory.count];
		return;
	}
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
	return memory.copy(memory.queue, 0, block->file, block->memory, block->size, 0, NULL, NULL);
}

int api_copied(void)
{
	return memory.queue ? BELOW(clFinish)(memory.queue) : SUCCESS;
}

int memory_set_access(Handle kernel, unsigned what, size_t size, const void *value)
{
	void *all[MOST_POINTERS + MOST_BLOCKS];
	size_t whole = size + memory.count * sizeof *all;

	/* Maps in unified memory need only that the kernel may follow any pointer, which the user may not take back. */
	if (memory.sharing == UNIFIED && (what == KERNEL_HOST_ACCESS || what == KERNEL_DEVICE_ACCESS))
		return SUCCESS;
	if (what != KERNEL_SVM_POINTERS || memory.sharing != BUFFERS || size % sizeof *all ||
	    size > MOST_POINTERS * sizeof *all)
		return BELOW(clSetKernelExecInfo)(kernel, what, size, value);
	memcpy(all, memory.blocks, memory.count * sizeof *all);
	memcpy(all + memory.count, value, size);
	return BELOW(clSetKernelExecInfo)(kernel, what, whole, all);
}

void memory_attach(Handle kernel)
{
	unsigned yes = 1;

	if (!BELOW(clSetKernelExecInfo))
		return;
	if (memory.sharing == BUFFERS)
		memory_set_access(kernel, KERNEL_SVM_POINTERS, 0, memory.blocks);
	if (memory.sharing == UNIFIED) {
		BELOW(clSetKernelExecInfo)(kernel, KERNEL_HOST_ACCESS, sizeof yes, &yes);
		BELOW(clSetKernelExecInfo)(kernel, KERNEL_DEVICE_ACCESS, sizeof yes, &yes);
	}
}
