/* Copies and fills: wait for the stream, then access the memory on the host. */
#include "standin.h"

#include <string.h>

/* Find bytes of the device or of the host in this process; NULL if they are in the device's range but not allocated. */
static uint8_t *anywhere(uint64_t address, size_t size)
{
	struct range range;

	if (address - process.base < process.size || find_range(address, &range))
		return reach(address, size);
	return (uint8_t *)(uintptr_t)address;
}

CUresult copy(uint64_t to, uint64_t from, size_t size, CUstream stream)
{
	CUresult result = usable();
	uint8_t *target, *source;

	if (result || !size)
		return result;
	target = anywhere(to, size);
	source = anywhere(from, size);
	if (!target || !source)
		return INVALID_VALUE;
	if (is_captured(stream))
		return capture_copy(stream, to, from, size);
	result = wait_for(stream_number(stream));
	if (!result)
		memmove(target, source, size);
	return result;
}

#define POINTER(p) ((uint64_t)(uintptr_t)(p))

API CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy(to, from, size, NULL);
}

API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy(to, from, size, stream);
}

API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size)
{
	return reach(to, size) ? copy(to, POINTER(from), size, NULL) : usable() ? usable() : INVALID_VALUE;
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
	if (!reach(to, size))
		return usable() ? usable() : INVALID_VALUE;
	return copy(to, POINTER(from), size, stream);
}

API CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size)
{
	return reach(from, size) ? copy(POINTER(to), from, size, NULL) : usable() ? usable() : INVALID_VALUE;
}

API CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
	if (!reach(from, size))
		return usable() ? usable() : INVALID_VALUE;
	return copy(POINTER(to), from, size, stream);
}

API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return copy(to, from, size, NULL);
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	return copy(to, from, size, stream);
}

/* One side of CUDA_MEMCPY2D: its start and its kind (1 host, 2 device, 3 array, 4 unified). */
struct side {
	size_t x, y;
	int kind;
	const void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
};

struct rectangle {
	struct side from, to;
	size_t width, height;
};

static uint64_t row(const struct side *side, size_t number)
{
	return (side->kind == 1 ? POINTER(side->host) : side->device) + (side->y + number) * side->pitch + side->x;
}

static CUresult copy_rows(const struct rectangle *what, CUstream stream)
{
	CUresult result = SUCCESS;

	if (what->from.kind == 3 || what->to.kind == 3)
		return NOT_SUPPORTED;
	for (size_t i = 0; i < what->height && !result; i++)
		result = copy(row(&what->to, i), row(&what->from, i), what->width, stream);
	return result;
}

API CUresult cuMemcpy2D_v2(const struct rectangle *what)
{
	return copy_rows(what, NULL);
}

API CUresult cuMemcpy2DUnaligned_v2(const struct rectangle *what)
{
	return copy_rows(what, NULL);
}

API CUresult cuMemcpy2DAsync_v2(const struct rectangle *what, CUstream stream)
{
	return copy_rows(what, stream);
}

CUresult fill(CUdeviceptr to, uint32_t value, size_t unit, size_t count, CUstream stream)
{
	CUresult result = usable();
	uint8_t *target;

	if (result || !count)
		return result;
	target = reach(to, unit * count);
	if (!target || to % unit)
		return INVALID_VALUE;
	if (is_captured(stream))
		return capture_fill(stream, to, value, unit, count);
	result = wait_for(stream_number(stream));
	if (result)
		return result;
	if (unit == 1)
		memset(target, value, count);
	for (size_t i = 0; unit > 1 && i < count; i++)
		memcpy(target + i * unit, &value, unit);
	return SUCCESS;
}

API CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
{
	return fill(to, value, 1, count, NULL);
}

API CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
{
	return fill(to, value, 2, count, NULL);
}

API CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
{
	return fill(to, value, 4, count, NULL);
}

API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
	return fill(to, value, 1, count, stream);
}

API CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
{
	return fill(to, value, 2, count, stream);
}

API CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
	return fill(to, value, 4, count, stream);
}

API CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)
{
	CUresult result = usable();

	for (size_t i = 0; i < height && !result; i++)
		result = fill(to + i * pitch, value, 1, width, NULL);
	return result;
}

API CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
			       CUstream stream)
{
	CUresult result = usable();

	for (size_t i = 0; i < height && !result; i++)
		result = fill(to + i * pitch, value, 1, width, stream);
	return result;
}
