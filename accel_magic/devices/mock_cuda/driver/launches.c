/* Kernels: attributes and launches. */
#include "mock_cuda.h"

#include <stdlib.h>
#include <string.h>

enum attribute {
	MAX_THREADS,
	SHARED_BYTES,
	CONST_BYTES,
	LOCAL_BYTES,
	REGISTERS,
	PTX_VERSION,
	BINARY_VERSION,
	CACHE_MODE,
	MAX_DYNAMIC_SHARED,
	CARVEOUT,
	LAST_ATTRIBUTE = 15,
};

static CUresult get_attribute(int *value, int attribute, CUfunction function)
{
	if (!function)
		return INVALID_HANDLE;
	switch (attribute) {
	case MAX_THREADS:
		*value = function->threads;
		return SUCCESS;
	case SHARED_BYTES:
		*value = function->shared;
		return SUCCESS;
	case LOCAL_BYTES:
		*value = function->local;
		return SUCCESS;
	case REGISTERS: /* the simulated device has no limit */
		*value = 32;
		return SUCCESS;
	case PTX_VERSION:
	case BINARY_VERSION:
		*value = 80;
		return SUCCESS;
	case MAX_DYNAMIC_SHARED:
		*value = function->dynamic;
		return SUCCESS;
	case CARVEOUT:
		*value = -1;
		return SUCCESS;
	default:
		*value = 0;
		return attribute <= LAST_ATTRIBUTE ? SUCCESS : INVALID_VALUE;
	}
}

static CUresult set_attribute(int attribute, int value, CUfunction function)
{
	int most = 0;

	if (!function)
		return INVALID_HANDLE;
	if (attribute > LAST_ATTRIBUTE)
		return INVALID_VALUE;
	if (attribute != MAX_DYNAMIC_SHARED)
		return SUCCESS;
	cuDeviceGetAttribute(&most, 97, 0);
	if (value < 0 || (uint32_t)value + function->shared > (uint32_t)most)
		return INVALID_VALUE;
	function->dynamic = value;
	return SUCCESS;
}

API CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
	return get_attribute(value, attribute, function);
}

API CUresult cuKernelGetAttribute(int *value, int attribute, CUkernel kernel, CUdevice device)
{
	return device ? INVALID_DEVICE : get_attribute(value, attribute, kernel);
}

API CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
	return set_attribute(attribute, value, function);
}

API CUresult cuKernelSetAttribute(int attribute, int value, CUkernel kernel, CUdevice device)
{
	return device ? INVALID_DEVICE : set_attribute(attribute, value, kernel);
}

API CUresult cuFuncSetCacheConfig(CUfunction function, int config)
{
	(void)config;
	return function ? SUCCESS : INVALID_HANDLE;
}

API CUresult cuKernelSetCacheConfig(CUkernel kernel, int config, CUdevice device)
{
	(void)device;
	return cuFuncSetCacheConfig(kernel, config);
}

API CUresult cuFuncGetName(const char **name, CUfunction function)
{
	*name = function ? function->name : NULL;
	return function ? SUCCESS : INVALID_HANDLE;
}

API CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	return cuFuncGetName(name, kernel);
}

API CUresult cuFuncGetParamInfo(CUfunction function, size_t number, size_t *offset, size_t *size)
{
	if (!function || number >= function->count)
		return function ? INVALID_VALUE : INVALID_HANDLE;
	*offset = function->parameters[number].offset;
	if (size)
		*size = function->parameters[number].size;
	return SUCCESS;
}

API CUresult cuKernelGetParamInfo(CUkernel kernel, size_t number, size_t *offset, size_t *size)
{
	return cuFuncGetParamInfo(kernel, number, offset, size);
}

API CUresult cuFuncGetParamCount(CUfunction function, size_t *count)
{
	*count = function ? function->count : 0;
	return function ? SUCCESS : INVALID_HANDLE;
}

API CUresult cuKernelGetParamCount(CUkernel kernel, size_t *count)
{
	return cuFuncGetParamCount(kernel, count);
}

API CUresult cuFuncIsLoaded(int *state, CUfunction function)
{
	*state = 1;
	return function ? SUCCESS : INVALID_HANDLE;
}

API CUresult cuFuncLoad(CUfunction function)
{
	return function ? SUCCESS : INVALID_HANDLE;
}

struct launch {
	unsigned int grid[3], block[3], shared;
	CUstream stream;
	const struct launch_attribute *attributes;
	unsigned int count;
};

struct launch_attribute {
	int id, padding;
	union {
		char room[64];
		unsigned int cluster[3];
		int cooperative;
	};
};

enum { COOPERATIVE = 2, CLUSTER_DIMENSION = 4 };

/* Parse a launch's `extra`: pairs of a key and a value, ended by a null. */
static CUresult packed(void **extra, const void **data, size_t *size)
{
	enum { END, BUFFER, BUFFER_SIZE };

	*data = NULL;
	*size = 0;
	for (; (uintptr_t)*extra != END; extra += 2) {
		if ((uintptr_t)*extra == BUFFER)
			*data = extra[1];
		else if ((uintptr_t)*extra == BUFFER_SIZE)
			*size = *(size_t *)extra[1];
		else
			return INVALID_VALUE;
	}
	return SUCCESS;
}

/* Copy the parameters into one block, in the kernel's layout. */
static CUresult gather(CUfunction function, void **parameters, void **extra, char *block, size_t room, size_t *size)
{
	const void *given;
	CUresult result;

	if (!parameters && extra) {
		result = packed(extra, &given, size);
		if (!result && (*size > room || (*size && !given)))
			return INVALID_VALUE;
		if (!result && *size)
			memcpy(block, given, *size);
		return result;
	}
	*size = 0;
	if (function->count && !parameters)
		return INVALID_VALUE;
	for (uint32_t i = 0; i < function->count; i++) {
		const struct parameter *one = &function->parameters[i];

		if (one->offset + one->size > room)
			return INVALID_VALUE;
		memcpy(block + one->offset, parameters[i], one->size);
		*size = one->offset + one->size;
	}
	return SUCCESS;
}

static CUresult launch(CUfunction function, const struct launch *how, int cooperative, void **parameters, void **extra)
{
	const unsigned int *grid = how->grid, *block = how->block;
	struct request request = {.operation = LAUNCH};
	static __thread char room[32768];
	CUresult result = usable();
	size_t size = 0;

	if (result || !function)
		return result ? result : INVALID_HANDLE;
	if (how->shared > function->dynamic)
		return INVALID_VALUE;
	memset(room, 0, sizeof(room));
	result = gather(function, parameters, extra, room, sizeof(room), &size);
	if (result)
		return result;
	request.size = size;
	request.a[0] = function->id;
	request.a[1] = stream_number(how->stream);
	request.a[2] = grid[0] | (uint64_t)grid[1] << 32;
	request.a[3] = grid[2] | (uint64_t)block[0] << 32;
	request.a[4] = block[1] | (uint64_t)block[2] << 32;
	request.a[5] = how->shared | (uint64_t)!!cooperative << 32;
	if (is_captured(how->stream))
		return capture_launch(how->stream, &request, room);
	return ask(&request, room, NULL, NULL);
}

API CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
			    unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
			    CUstream stream, void **parameters, void **extra)
{
	struct launch how = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream, NULL, 0};

	return launch(function, &how, 0, parameters, extra);
}

API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
				       unsigned int grid_z, unsigned int block_x, unsigned int block_y,
				       unsigned int block_z, unsigned int shared, CUstream stream, void **parameters)
{
	struct launch how = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream, NULL, 0};

	return launch(function, &how, 1, parameters, NULL);
}

API CUresult cuLaunchKernelEx(const struct launch *how, CUfunction function, void **parameters, void **extra)
{
	int cooperative = 0;

	for (unsigned int i = 0; how && i < how->count; i++) {
		const struct launch_attribute *one = &how->attributes[i];

		if (one->id == CLUSTER_DIMENSION && one->cluster[0] * one->cluster[1] * one->cluster[2] > 1)
			return INVALID_CLUSTER_SIZE;
		if (one->id == COOPERATIVE)
			cooperative = one->cooperative;
	}
	return how ? launch(function, how, cooperative, parameters, extra) : INVALID_VALUE;
}

/* Resident blocks of a multiprocessor of compute capability 8.0, limited by threads, number and shared memory. */
static int blocks_at_once(CUfunction function, int threads, size_t dynamic)
{
	const uint32_t warps = 64, most = 32, memory = 164 << 10, reserved = 1 << 10;
	uint32_t blocks, shared = function->shared + dynamic + reserved;

	if (threads <= 0 || (uint32_t)threads > function->threads)
		return 0;
	blocks = warps / ((threads + 31) / 32);
	if (blocks > most)
		blocks = most;
	return blocks < memory / shared ? blocks : memory / shared;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t dynamic)
{
	*blocks = function ? blocks_at_once(function, threads, dynamic) : 0;
	return function ? SUCCESS : INVALID_HANDLE;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
								   size_t dynamic, unsigned int flags)
{
	(void)flags;
	return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, dynamic);
}

API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
						       size_t (*dynamic_for)(int), size_t dynamic, int limit,
						       unsigned int flags)
{
	int multiprocessors = 0, best = 0;

	(void)flags;
	if (!function)
		return INVALID_HANDLE;
	if (limit <= 0 || (uint32_t)limit > function->threads)
		limit = function->threads;
	for (int threads = 32; threads <= limit; threads += 32) {
		int blocks = blocks_at_once(function, threads, dynamic_for ? dynamic_for(threads) : dynamic);

		if (blocks * threads >= best) {
			best = blocks * threads;
			*block = threads;
		}
	}
	cuDeviceGetAttribute(&multiprocessors, 16, 0);
	*grid = best ? best / *block * multiprocessors : 0;
	return best ? SUCCESS : INVALID_VALUE;
}

API CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, size_t (*dynamic_for)(int),
					      size_t dynamic, int limit)
{
	return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, dynamic_for, dynamic, limit, 0);
}

API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int threads)
{
	if (!function || blocks <= 0 || threads <= 0)
		return INVALID_VALUE;
	*bytes = (164 << 10) / blocks - (1 << 10) - function->shared;
	return SUCCESS;
}

/* Clusters are not supported, but Triton calls this for every kernel. */
API CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const struct launch *how)
{
	(void)how;
	*clusters = 0;
	return function ? SUCCESS : INVALID_HANDLE;
}
