/* Copies and fills: wait for the stream, then access the memory on the host. */
#include "mock_cuda.h"

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

enum { HOST_SIDE = 1, ARRAY_SIDE = 3 }; /* CUmemorytype; others are device addresses */

/* One side of CUDA_MEMCPY2D: its start and its kind. */
struct side {
	size_t x, y;
	int kind;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	size_t pitch;
};

struct rectangle {
	struct side from, to;
	size_t width, height;
};

/* One side of CUDA_MEMCPY3D. */
struct solid_side {
	size_t x, y, z, lod;
	int kind;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	void *reserved;
	size_t pitch, height;
};

struct solid {
	struct solid_side from, to;
	size_t width, height, depth;
};

static int fits(size_t start, size_t count, size_t size)
{
	return start <= (size ? size : 1) && count <= (size ? size : 1) - start;
}

/* Find where one side begins, and its pitch and slice in bytes. */
static CUresult begin(struct solid_side *side, const struct solid *what, uint64_t *first, size_t *slice)
{
	const CUarray array = side->kind == ARRAY_SIDE ? side->array : NULL;

	if (side->kind == ARRAY_SIDE && (!array || !fits(side->x, what->width, array->pitch) ||
					 !fits(side->y, what->height, array->is.height) ||
					 !fits(side->z, what->depth, array->is.depth)))
		return INVALID_VALUE;
	if (array)
		side->pitch = array->pitch;
	*slice = array ? array->slice : side->pitch * side->height;
	*first = array ? array->address : side->kind == HOST_SIDE ? POINTER(side->host) : side->device;
	*first += side->z * *slice + side->y * side->pitch + side->x;
	return SUCCESS;
}

static CUresult copy_solid(const struct solid *given, CUstream stream)
{
	struct solid what = *given;
	uint64_t from, to;
	size_t from_slice, to_slice;
	CUresult result = begin(&what.from, &what, &from, &from_slice);

	if (!result)
		result = begin(&what.to, &what, &to, &to_slice);
	for (size_t z = 0; z < what.depth && !result; z++)
		for (size_t y = 0; y < what.height && !result; y++)
			result = copy(to + z * to_slice + y * what.to.pitch, from + z * from_slice + y * what.from.pitch,
				      what.width, stream);
	return result;
}

static struct solid_side solid_side(const struct side *side)
{
	return (struct solid_side){.x = side->x, .y = side->y, .kind = side->kind, .host = side->host,
				   .device = side->device, .array = side->array, .pitch = side->pitch};
}

static CUresult copy_rows(const struct rectangle *what, CUstream stream)
{
	return copy_solid(&(struct solid){solid_side(&what->from), solid_side(&what->to), what->width, what->height, 1},
			  stream);
}

API CUresult cuMemcpy3D_v2(const struct solid *what)
{
	return copy_solid(what, NULL);
}

API CUresult cuMemcpy3DAsync_v2(const struct solid *what, CUstream stream)
{
	return copy_solid(what, stream);
}

/* Bytes of an array from an offset; 0 if they are not all within it. Arrays have no padding. */
static uint64_t within(CUarray array, size_t offset, size_t size)
{
	return array && reach(array->address + offset, size) ? array->address + offset : 0;
}

API CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t size, CUstream stream)
{
	uint64_t target = within(to, offset, size);

	return target ? copy(target, POINTER(from), size, stream) : INVALID_VALUE;
}

API CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t size)
{
	return cuMemcpyHtoAAsync_v2(to, offset, from, size, NULL);
}

API CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t size, CUstream stream)
{
	uint64_t source = within(from, offset, size);

	return source ? copy(POINTER(to), source, size, stream) : INVALID_VALUE;
}

API CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t size)
{
	return cuMemcpyAtoHAsync_v2(to, from, offset, size, NULL);
}

API CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t size)
{
	uint64_t target = within(to, offset, size);

	return target ? copy(target, from, size, NULL) : INVALID_VALUE;
}

API CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t size)
{
	uint64_t source = within(from, offset, size);

	return source ? copy(to, source, size, NULL) : INVALID_VALUE;
}

API CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size)
{
	uint64_t target = within(to, to_offset, size), source = within(from, from_offset, size);

	return target && source ? copy(target, source, size, NULL) : INVALID_VALUE;
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
