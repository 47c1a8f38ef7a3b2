/* An OpenCL layer, which loaders put between a program and its drivers (cl_loader_layers): see OPENCL_LAYERS.
 *
 * Loaded into programs that a traced cell has started. After any failure the program runs as without this layer, and
 * nothing is ever written to its output.
 */
#include <string.h>

#include "wrapped.h"

#define SHOWN __attribute__((visibility("default")))

enum { LAYER_VERSION = 0x4240, LAYER_NAME = 0x4241, VERSION = 100 };

static const char NAME[] = "accel_magic";
static const char IL_EXTENSION[] = "clCreateProgramWithILKHR";

void *below[MOST_CALLS];
static void *ours[MOST_CALLS];
static clCreateProgramWithIL_call *_Atomic create_of_extension;

void *extension(Handle device, const char *name)
{
	Handle platform = NULL;

	if (!READ(clGetDeviceInfo, device, DEVICE_PLATFORM, platform) || !BELOW(clGetExtensionFunctionAddressForPlatform))
		return NULL;
	return BELOW(clGetExtensionFunctionAddressForPlatform)(platform, name);
}

Handle with_il(Handle context, const void *code, size_t size, int *error)
{
	if (create_of_extension)
		return create_of_extension(context, code, size, error);
	if (BELOW(clCreateProgramWithIL))
		return BELOW(clCreateProgramWithIL)(context, code, size, error);
	*error = INVALID_VALUE;
	return NULL;
}

Handle wrapped_clCreateProgramWithIL(Handle context, const void *code, size_t size, int *error)
{
	Handle program = BELOW(clCreateProgramWithIL)(context, code, size, error);

	if (program)
		programs_with_il(program, context, code, size);
	return program;
}

/* OpenCL 2.0 has the call as an extension. */
static Handle create_by_extension(Handle context, const void *code, size_t size, int *error)
{
	Handle program = create_of_extension(context, code, size, error);

	if (program)
		programs_with_il(program, context, code, size);
	return program;
}

static void *handed_out(const char *name, void *function)
{
	if (!function || strcmp(name, IL_EXTENSION) != 0)
		return function;
	create_of_extension = (clCreateProgramWithIL_call *)function;
	return (void *)create_by_extension;
}

void *wrapped_clGetExtensionFunctionAddress(const char *name)
{
	return handed_out(name, BELOW(clGetExtensionFunctionAddress)(name));
}

void *wrapped_clGetExtensionFunctionAddressForPlatform(Handle platform, const char *name)
{
	return handed_out(name, BELOW(clGetExtensionFunctionAddressForPlatform)(platform, name));
}

static int answer(const void *value, size_t size, size_t room, void *to, size_t *needed)
{
	if (to && room < size)
		return INVALID_VALUE;
	if (to)
		memcpy(to, value, size);
	if (needed)
		*needed = size;
	return SUCCESS;
}

SHOWN int clGetLayerInfo(unsigned what, size_t room, void *value, size_t *needed)
{
	static const unsigned version = VERSION;

	if (what == LAYER_VERSION)
		return answer(&version, sizeof version, room, value, needed);
	return what == LAYER_NAME ? answer(NAME, sizeof NAME, room, value, needed) : INVALID_VALUE;
}

/* The table must have as many entries as the loader's, which may be newer than this layer. */
SHOWN int clInitLayer(unsigned count, void *const *target, unsigned *given, void *const **table)
{
	if (count > MOST_CALLS)
		return INVALID_VALUE;
	memcpy(below, target, count * sizeof *below);
	memcpy(ours, target, count * sizeof *ours);
#define WRAP(name)                                      \
	if (below[AT_##name])                           \
		ours[AT_##name] = (void *)wrapped_##name;
	WRAPPED(WRAP)
#undef WRAP
	*given = count;
	*table = ours;
	return SUCCESS;
}

/* Newer loaders call these instead. */
SHOWN int clInitLayerWithProperties(unsigned count, void *const *target, unsigned *given, void *const **table,
				    const intptr_t *properties)
{
	(void)properties;
	return clInitLayer(count, target, given, table);
}

SHOWN int clDeinitLayer(void)
{
	return SUCCESS;
}
