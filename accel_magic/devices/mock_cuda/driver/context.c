/* The device, its properties, and contexts; all of this is local to the process. */
#include "mock_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIVER_VERSION 13050
#define DEPTH 64

struct uuid {
	uint8_t bytes[16];
};

static struct context primary = {.primary = 1, .id = 1};
static int retained;
static uint64_t contexts = 1;
static __thread CUcontext stack[DEPTH];
static __thread int depth;
static uint64_t limits[16] = {1024, 1 << 20, 8 << 20, 2, 2048, 128};

API CUresult cuInit(unsigned int flags)
{
	return flags ? INVALID_VALUE : connected();
}

API CUresult cuDriverGetVersion(int *version)
{
	if (!version)
		return INVALID_VALUE;
	*version = DRIVER_VERSION;
	return SUCCESS;
}

CUcontext current_context(void)
{
	return depth ? stack[depth - 1] : NULL;
}

/* Check what most calls need: a connection and a current context. */
CUresult usable(void)
{
	if (!process.greeting)
		return NOT_INITIALIZED;
	return current_context() ? SUCCESS : INVALID_CONTEXT;
}

static CUresult known(CUdevice device)
{
	if (!process.greeting)
		return NOT_INITIALIZED;
	return device ? INVALID_DEVICE : SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	CUresult result = known(ordinal);

	if (!result)
		*device = ordinal;
	return result;
}

API CUresult cuDeviceGetCount(int *count)
{
	if (!process.greeting)
		return NOT_INITIALIZED;
	*count = 1;
	return SUCCESS;
}

API CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
	CUresult result = known(device);

	if (!result && length > 0)
		snprintf(name, length, "%s", process.greeting->name);
	return result;
}

API CUresult cuDeviceGetUuid_v2(struct uuid *uuid, CUdevice device)
{
	CUresult result = known(device);

	if (!result)
		memcpy(uuid->bytes, process.greeting->uuid, sizeof(uuid->bytes));
	return result;
}

API CUresult cuDeviceGetUuid(struct uuid *uuid, CUdevice device)
{
	return cuDeviceGetUuid_v2(uuid, device);
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult result = known(device);

	if (!result)
		*bytes = process.size;
	return result;
}

API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
	CUresult result = known(device);

	if (result)
		return result;
	if (attribute <= 0 || attribute > 200)
		return INVALID_VALUE;
	*value = 0;
	for (uint32_t i = 0; i < process.attributes; i++)
		if (process.greeting->attributes[i][0] == attribute)
			*value = process.greeting->attributes[i][1];
	return SUCCESS;
}

API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	CUresult result = cuDeviceGetAttribute(major, 75, device);

	return result ? result : cuDeviceGetAttribute(minor, 76, device);
}

API CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
	CUresult result = known(device);

	if (!result)
		snprintf(text, length, "0000:00:00.0");
	return result;
}

API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text)
{
	(void)text;
	return cuDeviceGet(device, 0);
}

API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	*can = 0;
	return device || peer ? INVALID_DEVICE : SUCCESS;
}

API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	CUresult result = known(device);

	if (result)
		return result;
	__atomic_add_fetch(&retained, 1, __ATOMIC_RELAXED);
	*context = &primary;
	return SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	if (known(device))
		return known(device);
	if (__atomic_load_n(&retained, __ATOMIC_RELAXED) <= 0)
		return INVALID_CONTEXT;
	__atomic_sub_fetch(&retained, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
	primary.flags = flags;
	return known(device);
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
	*flags = primary.flags;
	*active = __atomic_load_n(&retained, __ATOMIC_RELAXED) > 0;
	return known(device);
}

API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	CUresult result = known(device);

	if (result)
		return result;
	forget_ranges();
	return tell(RESET, 0, 0);
}

static CUresult create(CUcontext *context, unsigned int flags, CUdevice device)
{
	CUresult result = known(device);
	CUcontext made;

	if (result)
		return result;
	if (depth == DEPTH || !(made = calloc(1, sizeof(*made))))
		return OUT_OF_MEMORY;
	made->flags = flags;
	made->id = __atomic_add_fetch(&contexts, 1, __ATOMIC_RELAXED);
	stack[depth++] = *context = made;
	return SUCCESS;
}

API CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device)
{
	return create(context, flags, device);
}

API CUresult cuCtxCreate_v3(CUcontext *context, void *affinities, int count, unsigned int flags, CUdevice device)
{
	(void)affinities;
	return count ? NOT_SUPPORTED : create(context, flags, device);
}

API CUresult cuCtxCreate_v4(CUcontext *context, void *parameters, unsigned int flags, CUdevice device)
{
	(void)parameters;
	return create(context, flags, device);
}

API CUresult cuCtxDestroy_v2(CUcontext context)
{
	if (!context || context->primary)
		return INVALID_CONTEXT;
	for (int i = 0; i < depth; i++)
		if (stack[i] == context)
			stack[i] = NULL;
	while (depth && !stack[depth - 1])
		depth--;
	free(context);
	return SUCCESS;
}

API CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	if (!process.greeting)
		return NOT_INITIALIZED;
	if (!context || depth == DEPTH)
		return INVALID_CONTEXT;
	stack[depth++] = context;
	return SUCCESS;
}

API CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	CUresult result = usable();

	if (result)
		return result;
	depth--;
	if (context)
		*context = stack[depth];
	return SUCCESS;
}

API CUresult cuCtxSetCurrent(CUcontext context)
{
	if (!process.greeting)
		return NOT_INITIALIZED;
	if (depth)
		depth--;
	if (context)
		stack[depth++] = context;
	return SUCCESS;
}

API CUresult cuCtxGetCurrent(CUcontext *context)
{
	if (!process.greeting)
		return NOT_INITIALIZED;
	*context = current_context();
	return SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = 0;
	return usable();
}

API CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
{
	*device = 0;
	return context ? SUCCESS : usable();
}

API CUresult cuCtxGetFlags(unsigned int *flags)
{
	CUresult result = usable();

	if (!result)
		*flags = current_context()->flags;
	return result;
}

API CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
	CUcontext asked = context ? context : current_context();

	if (!asked)
		return INVALID_CONTEXT;
	*id = asked->id;
	return SUCCESS;
}

API CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
	(void)context;
	*version = 3020;
	return SUCCESS;
}

API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return usable();
}

API CUresult cuCtxSetLimit(int limit, size_t value)
{
	CUresult result = usable();

	if (!result && (unsigned int)limit >= sizeof(limits) / sizeof(*limits))
		return INVALID_VALUE;
	if (!result)
		limits[limit] = value;
	return result;
}

API CUresult cuCtxGetLimit(size_t *value, int limit)
{
	CUresult result = usable();

	if (!result && (unsigned int)limit >= sizeof(limits) / sizeof(*limits))
		return INVALID_VALUE;
	if (!result)
		*value = limits[limit];
	return result;
}

API CUresult cuCtxGetCacheConfig(int *config)
{
	*config = 0;
	return usable();
}

API CUresult cuCtxSetCacheConfig(int config)
{
	(void)config;
	return usable();
}

API CUresult cuCtxEnablePeerAccess(CUcontext context, unsigned int flags)
{
	(void)context;
	(void)flags;
	return INVALID_CONTEXT;
}

API CUresult cuCtxSynchronize(void)
{
	CUresult result = usable();

	return result ? result : wait_for(EVERYTHING);
}

API CUresult cuCtxSynchronize_v2(CUcontext context)
{
	return context ? wait_for(EVERYTHING) : cuCtxSynchronize();
}

API CUresult cuProfilerStart(void)
{
	return usable();
}

API CUresult cuProfilerStop(void)
{
	return usable();
}
