/* The part of the Level Zero interface that this library uses, transcribed from the published specification, because few
 * machines have its headers. tests/unit/gpu/level_zero checks sizes and offsets.
 */
#ifndef ACCEL_LEVEL_ZERO_H
#define ACCEL_LEVEL_ZERO_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t Result;
typedef void *Handle;

enum { ZE_SUCCESS = 0 };
#define ZE_UNSUPPORTED 0x78000003u

/* Kinds of structures. */
enum {
	OF_DEVICE = 0x3,
	OF_QUEUE = 0xe,
	OF_DEVICE_MEMORY = 0x15,
	OF_HOST_MEMORY = 0x16,
	OF_KERNEL_PROPERTIES = 0x1e,
	OF_SEVERAL_MODULES = 0x20002,
};

enum { FORMAT_SPIRV = 0 };
enum { DEVICE_GPU = 1, DEVICE_INTEGRATED = 1, MODE_SYNCHRONOUS = 1 };
enum { ANY_HOST_MEMORY = 1, ANY_DEVICE_MEMORY = 2 };

struct ze_extension {
	uint32_t kind;
	const struct ze_extension *next;
};

struct ze_module {
	uint32_t kind;
	const struct ze_extension *next;
	uint32_t format;
	size_t size;
	const void *data;
	const char *options;
	const void *constants;
};

struct ze_kernel {
	uint32_t kind;
	const void *next;
	uint32_t flags;
	const char *name;
};

struct ze_queue {
	uint32_t kind;
	const void *next;
	uint32_t ordinal, index, flags, mode, priority;
};

struct ze_host_memory {
	uint32_t kind;
	const void *next;
	uint32_t flags;
};

struct ze_device_memory {
	uint32_t kind;
	const void *next;
	uint32_t flags, ordinal;
};

struct ze_device {
	uint32_t kind;
	void *next;
	uint32_t type, vendor, device, flags, subdevice, clock_rate;
	uint64_t largest_allocation;
	uint32_t contexts, priorities, threads_per_unit, width, units_per_subslice, subslices_per_slice, slices;
	uint64_t timer;
	uint32_t timer_bits, kernel_timer_bits;
	uint8_t uuid[16];
	char name[256];
};

struct ze_kernel_properties {
	uint32_t kind;
	void *next;
	uint32_t arguments, required_x, required_y, required_z, required_subgroups, required_lanes, most_lanes, most_subgroups;
	uint32_t local_bytes, private_bytes, spilled_bytes;
	uint8_t uuid[32];
};

struct ze_groups {
	uint32_t x, y, z;
};

/* The wrapped calls: name, arguments. */
#define WRAPPED(X)                                                                                                     \
	X(zeModuleCreate, (Handle context, Handle device, const struct ze_module *about, Handle *module, Handle *log)) \
	X(zeModuleDestroy, (Handle module))                                                                            \
	X(zeModuleGetNativeBinary, (Handle module, size_t *size, uint8_t *data))                                       \
	X(zeKernelCreate, (Handle module, const struct ze_kernel *about, Handle *kernel))                              \
	X(zeKernelSetIndirectAccess, (Handle kernel, uint32_t flags))                                                  \
	X(zeKernelSetGroupSize, (Handle kernel, uint32_t x, uint32_t y, uint32_t z))                                   \
	X(zeCommandListCreateImmediate, (Handle context, Handle device, const struct ze_queue *about, Handle *list))   \
	X(zeCommandListAppendLaunchKernel,                                                                             \
	  (Handle list, Handle kernel, const struct ze_groups *groups, Handle event, uint32_t count, Handle *events))  \
	X(zeCommandListAppendLaunchCooperativeKernel,                                                                  \
	  (Handle list, Handle kernel, const struct ze_groups *groups, Handle event, uint32_t count, Handle *events))  \
	X(zeCommandListAppendLaunchKernelIndirect,                                                                     \
	  (Handle list, Handle kernel, const struct ze_groups *groups, Handle event, uint32_t count, Handle *events))  \
	X(zeCommandQueueExecuteCommandLists, (Handle queue, uint32_t count, Handle *lists, Handle fence))              \
	X(zeCommandListReset, (Handle list))                                                                           \
	X(zeCommandListDestroy, (Handle list))                                                                         \
	X(zeContextDestroy, (Handle context))

/* Calls that only this library makes. */
#define CALLED(X)                                                                                                     \
	X(device_properties, zeDeviceGetProperties, (Handle device, struct ze_device *properties))                    \
	X(kernel_properties, zeKernelGetProperties, (Handle kernel, struct ze_kernel_properties *properties))         \
	X(host_memory, zeMemAllocHost,                                                                                \
	  (Handle context, const struct ze_host_memory *about, size_t size, size_t alignment, void **memory))         \
	X(device_memory, zeMemAllocDevice,                                                                            \
	  (Handle context, const struct ze_device_memory *about, size_t size, size_t alignment, Handle device,        \
	   void **memory))                                                                                            \
	X(free_memory, zeMemFree, (Handle context, void *memory))                                                     \
	X(copy, zeCommandListAppendMemoryCopy,                                                                        \
	  (Handle list, void *to, const void *from, size_t size, Handle event, uint32_t count, Handle *events))       \
	X(fill, zeCommandListAppendMemoryFill,                                                                        \
	  (Handle list, void *memory, const void *pattern, size_t pattern_size, size_t size, Handle event,            \
	   uint32_t count, Handle *events))                                                                           \
	X(barrier, zeCommandListAppendBarrier, (Handle list, Handle event, uint32_t count, Handle *events))           \
	X(log_text, zeModuleBuildLogGetString, (Handle log, size_t *size, char *text))                                \
	X(destroy_log, zeModuleBuildLogDestroy, (Handle log))

struct calls {
#define MEMBER(name, symbol, arguments) Result(*name) arguments;
	CALLED(MEMBER)
#undef MEMBER
};

extern struct calls ze;

/* Fill `ze`; 0 if the loader lacks one of CALLED. */
int calls_find(void);

#endif
