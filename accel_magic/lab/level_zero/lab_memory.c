/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: each is made with BO_CREATE, BO_INFO and mmap, and reference counted; the last release does GEM_CLOSE. */
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "lab_driver.h"

struct buffer *hold(struct buffer *buffer)
{
	atomic_fetch_add(&buffer->holders, 1);
	return buffer;
}

void release(struct buffer *buffer)
{
	struct npu_gem_close close_it;

	if (!buffer || atomic_fetch_sub(&buffer->holders, 1) > 1)
		return;
	close_it = (struct npu_gem_close){ .handle = buffer->handle };
	if (buffer->memory)
		munmap(buffer->memory, buffer->size);
	ioctl(buffer->fd, NPU_IOCTL_GEM_CLOSE, &close_it);
	free(buffer);
}

/* Create a buffer, mapped if NPU_BO_MAPPABLE is set; NULL if out of memory. */
struct buffer *make_buffer(struct ze_context *context, size_t size, uint32_t flags)
{
	struct npu_bo_create create = { .size = size, .flags = flags };
	struct npu_bo_info info = { 0 };
	struct buffer *buffer = calloc(1, sizeof(*buffer));
	void *memory;

	if (!buffer || ioctl(context->fd, NPU_IOCTL_BO_CREATE, &create)) {
		free(buffer);
		return NULL;
	}
	buffer->fd = context->fd;
	buffer->handle = info.handle = create.handle;
	buffer->holders = 1;
	if (ioctl(context->fd, NPU_IOCTL_BO_INFO, &info))
		goto failed;
	buffer->size = info.size;
	buffer->address = info.address;
	if (!(flags & NPU_BO_MAPPABLE))
		return buffer;
	memory = mmap(NULL, info.size, PROT_READ | PROT_WRITE, MAP_SHARED, context->fd, (off_t)info.mmap_offset);
	if (memory == MAP_FAILED)
		goto failed;
	buffer->memory = memory;
	return buffer;
failed:
	release(buffer);
	return NULL;
}

static bool covers(const struct buffer *buffer, const void *address)
{
	const char *begin = buffer->memory, *byte = address;

	return byte >= begin && byte < begin + buffer->size;
}

/* Find the context's buffer that contains an address, and take a reference; NULL if there is none. */
struct buffer *find_buffer(struct ze_context *context, const void *address)
{
	struct buffer *buffer;

	pthread_mutex_lock(&context->lock);
	for (buffer = context->buffers; buffer && !covers(buffer, address); buffer = buffer->next)
		;
	if (buffer)
		hold(buffer);
	pthread_mutex_unlock(&context->lock);
	return buffer;
}

/* Describe an area of a buffer for a command. */
ze_result span_of(struct ze_context *context, const void *address, size_t size, struct job_span *span)
{
	struct buffer *buffer = find_buffer(context, address);
	size_t offset;

	if (!buffer)
		return ZE_INVALID_ARGUMENT;
	offset = (size_t)((const char *)address - (const char *)buffer->memory);
	*span = (struct job_span){ buffer->address + offset, size };
	size = buffer->size - offset < size ? 0 : size;
	release(buffer);
	return size ? ZE_SUCCESS : ZE_INVALID_SIZE;
}

uint64_t memory_size(void)
{
	struct sysinfo system;

	return sysinfo(&system) ? 0 : (uint64_t)system.totalram * system.mem_unit;
}

uint64_t memory_used(struct ze_context *context)
{
	uint64_t used = 0;

	pthread_mutex_lock(&context->lock);
	for (struct buffer *buffer = context->buffers; buffer; buffer = buffer->next)
		used += buffer->size;
	pthread_mutex_unlock(&context->lock);
	return used;
}

static ze_result allocate(ze_context context, size_t size, size_t alignment, uint32_t flags, void **memory)
{
	struct buffer *buffer;

	if (!context)
		return ZE_INVALID_NULL_HANDLE;
	if (!memory)
		return ZE_INVALID_NULL_POINTER;
	if (!size)
		return ZE_UNSUPPORTED_SIZE;
	if (alignment & (alignment - 1))
		return ZE_UNSUPPORTED_ALIGNMENT;
	flags |= NPU_BO_MAPPABLE | (context->device->dma_range ? NPU_BO_DMA_MEM : NPU_BO_SHAVE_MEM);
	buffer = make_buffer(context, size, flags);
	if (!buffer)
		return ZE_OUT_OF_DEVICE_MEMORY;
	pthread_mutex_lock(&context->lock);
	buffer->next = context->buffers;
	context->buffers = buffer;
	pthread_mutex_unlock(&context->lock);
	*memory = buffer->memory;
	return ZE_SUCCESS;
}

/* Memory of others (a file descriptor, ordinary memory) cannot be imported: a chained description asks for that. */
ze_result lab_zeMemAllocHost(ze_context context, const struct ze_flags_description *description, size_t size,
			     size_t alignment, void **memory)
{
	if (description && description->next)
		return ZE_UNSUPPORTED_FEATURE;
	return description ? allocate(context, size, alignment, NPU_BO_CACHED, memory) : ZE_INVALID_NULL_POINTER;
}

ze_result lab_zeMemAllocDevice(ze_context context, const struct ze_ordinal_description *description, size_t size,
			       size_t alignment, ze_device device, void **memory)
{
	if (!device)
		return ZE_INVALID_NULL_HANDLE;
	return description ? allocate(context, size, alignment, NPU_BO_WC, memory) : ZE_INVALID_NULL_POINTER;
}

ze_result lab_zeMemAllocShared(ze_context context, const struct ze_ordinal_description *device_description,
			       const struct ze_flags_description *host_description, size_t size, size_t alignment,
			       ze_device device, void **memory)
{
	(void)device; /* may be NULL: memory for any device */
	if (!device_description || !host_description)
		return ZE_INVALID_NULL_POINTER;
	return allocate(context, size, alignment, NPU_BO_CACHED, memory);
}

ze_result lab_zeMemFree(ze_context context, void *memory)
{
	struct buffer **place, *buffer;

	if (!context)
		return ZE_INVALID_NULL_HANDLE;
	if (!memory)
		return ZE_INVALID_NULL_POINTER;
	pthread_mutex_lock(&context->lock);
	for (place = &context->buffers; *place && (*place)->memory != memory; place = &(*place)->next)
		;
	buffer = *place;
	if (buffer)
		*place = buffer->next;
	pthread_mutex_unlock(&context->lock);
	release(buffer);
	return buffer ? ZE_SUCCESS : ZE_INVALID_ARGUMENT;
}

ze_result lab_zeMemGetAllocProperties(ze_context context, const void *memory, struct ze_allocation_properties *properties,
				      ze_device *device)
{
	struct buffer *buffer;

	if (!context)
		return ZE_INVALID_NULL_HANDLE;
	if (!memory || !properties)
		return ZE_INVALID_NULL_POINTER;
	buffer = find_buffer(context, memory);
	properties->type = buffer ? ZE_MEMORY_HOST : ZE_MEMORY_UNKNOWN;
	properties->id = buffer ? buffer->handle : 0; /* a handle is never 0 */
	properties->page_size = buffer ? (uint64_t)sysconf(_SC_PAGESIZE) : 0;
	if (device)
		*device = buffer ? &lab_device : NULL;
	release(buffer);
	return ZE_SUCCESS;
}

ze_result lab_zeMemGetAddressRange(ze_context context, const void *memory, void **base, size_t *size)
{
	struct buffer *buffer;

	if (!context)
		return ZE_INVALID_NULL_HANDLE;
	if (!memory)
		return ZE_INVALID_NULL_POINTER;
	buffer = find_buffer(context, memory);
	if (!buffer)
		return ZE_INVALID_ARGUMENT;
	if (base)
		*base = buffer->memory;
	if (size)
		*size = buffer->size;
	release(buffer);
	return ZE_SUCCESS;
}
