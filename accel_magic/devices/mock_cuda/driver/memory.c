/* Allocation of device memory and of memory shared by host and device, and pointer attributes. */
#define _GNU_SOURCE
#include "mock_cuda.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMORY_HOST = 1, MEMORY_DEVICE = 2 };

struct pool {
	uint64_t threshold;
};

static struct pool standard_pool;

CUresult allocate_memory(CUdeviceptr *address, size_t size, enum kind kind, unsigned int flags)
{
	struct request request = {.operation = ALLOCATE, .a = {size}};
	struct reply reply;
	CUresult result = usable();

	if (!result && (!size || !address))
		return INVALID_VALUE;
	if (!result)
		result = ask(&request, NULL, &reply, NULL);
	if (result)
		return result;
	*address = reply.a[0];
	add_range((struct range){.address = *address, .size = size, .kind = kind, .flags = flags});
	return SUCCESS;
}

CUresult free_memory(CUdeviceptr address, uint64_t stream)
{
	struct range range;
	CUresult result = usable();

	if (result || !address)
		return result;
	if (!take_range(address, DEVICE, &range) && !take_range(address, MANAGED, &range))
		return INVALID_VALUE;
	return tell(FREE, range.address, stream);
}

API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	return allocate_memory(address, size, DEVICE, 0);
}

API CUresult cuMemFree_v2(CUdeviceptr address)
{
	return free_memory(address, EVERYTHING);
}

API CUresult cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned int element)
{
	(void)element;
	*pitch = (width + 511) / 512 * 512;
	return allocate_memory(address, *pitch * height, DEVICE, 0);
}

API CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned int flags)
{
	if (process.map != (uint8_t *)process.base)
		return NOT_SUPPORTED;
	return allocate_memory(address, size, MANAGED, flags);
}

API CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream)
{
	(void)stream;
	return allocate_memory(address, size, DEVICE, 0);
}

API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream)
{
	(void)pool;
	return cuMemAllocAsync(address, size, stream);
}

API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
	return free_memory(address, stream_number(stream));
}

API CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	struct request request = {.operation = ALLOCATE};
	struct reply reply;
	CUresult result = usable();

	if (!result)
		result = ask(&request, NULL, &reply, NULL);
	if (result)
		return result;
	*available = reply.a[0];
	*total = reply.a[1];
	return SUCCESS;
}

API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	struct range range;
	CUresult result = usable();

	if (result)
		return result;
	if (!find_range(address, &range))
		return INVALID_VALUE;
	if (base)
		*base = range.address;
	if (size)
		*size = range.size;
	return SUCCESS;
}

/* Host memory that kernels can access: device memory, which this process maps. */
API CUresult cuMemHostAlloc(void **pointer, size_t size, unsigned int flags)
{
	CUdeviceptr address;
	CUresult result = allocate_memory(&address, size, HOST, flags);

	if (!result)
		*pointer = reach(address, size);
	return result;
}

API CUresult cuMemAllocHost_v2(void **pointer, size_t size)
{
	return cuMemHostAlloc(pointer, size, 0);
}

API CUresult cuMemFreeHost(void *pointer)
{
	struct range range;

	if (!take_range((uint64_t)(uintptr_t)pointer, HOST, &range))
		return INVALID_VALUE;
	return tell(FREE, range.address, EVERYTHING);
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned int flags)
{
	uint64_t given = (uint64_t)(uintptr_t)pointer;
	struct range range;

	if (flags || !find_range(given, &range) || range.kind == DEVICE)
		return INVALID_VALUE;
	*address = range.address + (given - (uint64_t)(uintptr_t)range.host);
	return usable();
}

API CUresult cuMemHostGetFlags(unsigned int *flags, void *pointer)
{
	struct range range;

	if (!find_range((uint64_t)(uintptr_t)pointer, &range) || range.kind == DEVICE)
		return INVALID_VALUE;
	*flags = range.flags;
	return usable();
}

API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	*pool = &standard_pool;
	return device ? INVALID_DEVICE : SUCCESS;
}

API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	return cuDeviceGetDefaultMemPool(pool, device);
}

API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	(void)pool;
	return device ? INVALID_DEVICE : SUCCESS;
}

API CUresult cuMemPoolCreate(CUmemoryPool *pool, const void *properties)
{
	(void)properties;
	*pool = calloc(1, sizeof(**pool));
	return *pool ? SUCCESS : OUT_OF_MEMORY;
}

API CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	if (pool != &standard_pool)
		free(pool);
	return SUCCESS;
}

API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	(void)pool;
	(void)keep;
	return SUCCESS;
}

/* Attributes 1 to 3 are int, the others 64 bits; 4 is the release threshold. */
API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	if (attribute == 4)
		pool->threshold = *(uint64_t *)value;
	return SUCCESS;
}

API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value)
{
	if (attribute <= 3)
		*(int *)value = 1;
	else
		*(uint64_t *)value = attribute == 4 ? pool->threshold : 0;
	return SUCCESS;
}

API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const void *access, size_t count)
{
	(void)pool;
	(void)access;
	(void)count;
	return SUCCESS;
}

API CUresult cuMemAdvise_v2(CUdeviceptr address, size_t size, int advice, uint64_t location)
{
	(void)advice;
	(void)location;
	return reach(address, size) ? SUCCESS : INVALID_VALUE;
}

API CUresult cuMemAdvise(CUdeviceptr address, size_t size, int advice, CUdevice device)
{
	(void)device;
	return cuMemAdvise_v2(address, size, advice, 0);
}

API CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t size, CUdevice device, CUstream stream)
{
	(void)device;
	(void)stream;
	return reach(address, size) ? SUCCESS : INVALID_VALUE;
}

API CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t size, uint64_t location, unsigned int flags,
				   CUstream stream)
{
	(void)location;
	(void)flags;
	return cuMemPrefetchAsync(address, size, 0, stream);
}

static int is_host(enum kind kind)
{
	return kind == HOST || kind == REGISTERED || kind == MOVED;
}

/* The numbers are those of CUpointer_attribute; booleans are one byte. */
static CUresult describe(void *value, int attribute, const struct range *range, CUdeviceptr address)
{
	uint64_t base = (uint64_t)(uintptr_t)range->host;
	uint64_t offset = address - range->address < range->size ? address - range->address : address - base;

	switch (attribute) {
	case 1: /* context */
		*(CUcontext *)value = current_context();
		return SUCCESS;
	case 2: /* memory type */
		*(unsigned int *)value = is_host(range->kind) ? MEMORY_HOST : MEMORY_DEVICE;
		return SUCCESS;
	case 3: /* device pointer */
		*(uint64_t *)value = range->address + offset;
		return SUCCESS;
	case 4: /* host pointer */
		if (range->kind == DEVICE || range->kind == VARIABLE_KIND)
			return INVALID_VALUE;
		*(uint64_t *)value = base + offset;
		return SUCCESS;
	case 7: /* buffer id */
		*(uint64_t *)value = range->id;
		return SUCCESS;
	case 8: /* managed */
		*(uint8_t *)value = range->kind == MANAGED;
		return SUCCESS;
	case 11: /* start of the range */
		*(uint64_t *)value = range->address;
		return SUCCESS;
	case 12: /* size of the range */
		*(uint64_t *)value = range->size;
		return SUCCESS;
	case 13: /* mapped */
		*(uint8_t *)value = 1;
		return SUCCESS;
	case 16: /* access flags: read and write */
		*(unsigned int *)value = 3;
		return SUCCESS;
	case 9: /* device number */
		*(unsigned int *)value = 0;
		return SUCCESS;
	case 6:	 /* synchronous operations */
	case 10: /* legacy IPC capable */
	case 15: /* GPUDirect RDMA capable */
		*(uint8_t *)value = 0;
		return SUCCESS;
	case 14: /* types of shareable handles */
	case 17: /* memory pool */
		*(uint64_t *)value = 0;
		return SUCCESS;
	default:
		return NOT_SUPPORTED;
	}
}

API CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address)
{
	struct range range;

	if (!process.greeting)
		return NOT_INITIALIZED;
	return find_range(address, &range) ? describe(value, attribute, &range, address) : INVALID_VALUE;
}

/* For memory that the driver does not know, all values are zero, except the device number. */
API CUresult cuPointerGetAttributes(unsigned int count, const int *attributes, void **values, CUdeviceptr address)
{
	static const uint8_t sizes[] = {0, 8, 4, 8, 8, 0, 1, 8, 1, 4, 1, 8, 8, 1, 8, 1, 4, 8};
	struct range range;
	int found = find_range(address, &range);

	if (!process.greeting)
		return NOT_INITIALIZED;
	for (unsigned int i = 0; i < count; i++) {
		uint64_t value = 0;

		if (found)
			describe(&value, attributes[i], &range, address);
		else if (attributes[i] == 9)
			value = (uint32_t)-2; /* no device */
		if ((unsigned int)attributes[i] < sizeof(sizes))
			memcpy(values[i], &value, sizes[attributes[i]]);
	}
	return SUCCESS;
}

API CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr address)
{
	struct range range;

	(void)value;
	(void)attribute;
	return find_range(address, &range) ? SUCCESS : INVALID_VALUE;
}
