/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the Level Zero interface that ze_load and the lab's driver use, transcribed from the published
 * specification (version 1.0, which later ones only extend, unless noted), because few machines have its headers. The first words of
 * every structure are its kind and a pointer to extensions. tests/unit/lab checks sizes and offsets.
 */
#ifndef ACCEL_MAGIC_ZE_API_H
#define ACCEL_MAGIC_ZE_API_H

#include <stddef.h>
#include <stdint.h>

typedef uint32_t ze_result;

#define ZE_SUCCESS 0u
#define ZE_NOT_READY 1u
#define ZE_DEVICE_LOST 0x70000001u
#define ZE_OUT_OF_HOST_MEMORY 0x70000002u
#define ZE_OUT_OF_DEVICE_MEMORY 0x70000003u
#define ZE_BUILD_FAILURE 0x70000004u
#define ZE_UNINITIALIZED 0x78000001u
#define ZE_UNSUPPORTED_VERSION 0x78000002u
#define ZE_UNSUPPORTED_FEATURE 0x78000003u
#define ZE_INVALID_ARGUMENT 0x78000004u
#define ZE_INVALID_NULL_HANDLE 0x78000005u
#define ZE_INVALID_NULL_POINTER 0x78000007u
#define ZE_INVALID_SIZE 0x78000008u
#define ZE_UNSUPPORTED_SIZE 0x78000009u
#define ZE_UNSUPPORTED_ALIGNMENT 0x7800000au
#define ZE_INVALID_SYNCHRONIZATION_OBJECT 0x7800000bu
#define ZE_INVALID_NATIVE_BINARY 0x7800000fu
#define ZE_UNKNOWN 0x7ffffffeu

#define ZE_VERSION_1_0 0x10000u
#define ZE_MAJOR(version) ((version) >> 16)
#define ZE_FOREVER UINT64_MAX

enum ze_kind {
	ZE_KIND_DRIVER_PROPERTIES = 0x1,
	ZE_KIND_DEVICE_PROPERTIES = 0x3,
	ZE_KIND_QUEUE_GROUP_PROPERTIES = 0x6,
	ZE_KIND_CONTEXT = 0xd,
	ZE_KIND_QUEUE = 0xe,
	ZE_KIND_LIST = 0xf,
	ZE_KIND_FENCE = 0x12,
	ZE_KIND_DEVICE_MEMORY = 0x15,
	ZE_KIND_HOST_MEMORY = 0x16,
	ZE_KIND_DEVICE_PROPERTIES_1_2 = 0x20006,
};

enum ze_device_type { ZE_DEVICE_NPU = 5 };
enum ze_init_flag { ZE_INIT_NPU_ONLY = 2 };
enum ze_queue_mode { ZE_QUEUE_DEFAULT, ZE_QUEUE_SYNCHRONOUS, ZE_QUEUE_ASYNCHRONOUS };
enum ze_queue_priority { ZE_PRIORITY_NORMAL, ZE_PRIORITY_LOW, ZE_PRIORITY_HIGH };
enum ze_queue_group_flag { ZE_GROUP_COMPUTE = 1, ZE_GROUP_COPY = 2 };
enum ze_fence_flag { ZE_FENCE_SIGNALED = 1 };
enum ze_device_flag { ZE_DEVICE_INTEGRATED = 1 };
enum ze_memory_type { ZE_MEMORY_UNKNOWN, ZE_MEMORY_HOST };

typedef struct ze_driver *ze_driver;
typedef struct ze_device *ze_device;
typedef struct ze_context *ze_context;
typedef struct ze_queue *ze_queue;
typedef struct ze_list *ze_list;
typedef struct ze_fence *ze_fence;
typedef struct ze_event_pool *ze_event_pool;
typedef struct ze_event *ze_event;

#define ZE_HEAD       \
	uint32_t kind; \
	const void *next

/* For zeContextCreate, zeFenceCreate and zeMemAllocHost. */
struct ze_flags_description {
	ZE_HEAD;
	uint32_t flags;
};

/* For zeCommandListCreate, and for zeMemAllocDevice, which has the two numbers in reverse order. */
struct ze_ordinal_description {
	ZE_HEAD;
	uint32_t ordinal;
	uint32_t flags;
};

struct ze_queue_description {
	ZE_HEAD;
	uint32_t ordinal;
	uint32_t index;
	uint32_t flags;
	uint32_t mode;
	uint32_t priority;
};

struct ze_driver_properties {
	ZE_HEAD;
	uint8_t uuid[16];
	uint32_t version;
};

struct ze_device_properties {
	ZE_HEAD;
	uint32_t type;
	uint32_t vendor;
	uint32_t device;
	uint32_t flags;
	uint32_t subdevice;
	uint32_t clock_mhz;
	uint64_t most_memory;
	uint32_t most_contexts;
	uint32_t most_priority;
	uint32_t compute_units[5];
	uint64_t timer_resolution;
	uint32_t timestamp_bits;
	uint32_t kernel_timestamp_bits;
	uint8_t uuid[16];
	char name[256];
};

#define ZE_EXTENSION_NAME 256

struct ze_extension_properties {
	char name[ZE_EXTENSION_NAME];
	uint32_t version;
};

struct ze_external_memory_properties {
	ZE_HEAD;
	uint32_t memory_import, memory_export, image_import, image_export;
};

struct ze_pci_properties {
	ZE_HEAD;
	uint32_t domain, bus, device, function;
	int32_t generation, width; /* -1: unknown, as the bandwidth */
	int64_t bandwidth;
};

struct ze_allocation_properties {
	ZE_HEAD;
	uint32_t type;
	uint64_t id;
	uint64_t page_size;
};

struct ze_event_pool_description {
	ZE_HEAD;
	uint32_t flags;
	uint32_t count;
};

struct ze_event_description {
	ZE_HEAD;
	uint32_t index;
	uint32_t signal, wait;
};

struct ze_queue_group_properties {
	ZE_HEAD;
	uint32_t flags;
	size_t most_fill_pattern;
	uint32_t queues;
};

/* Functions with their parameters: those that ze_load calls, and others. */
#define ZE_LOAD_FUNCTIONS(F)                                                                                         \
	F(zeInit, uint32_t flags)                                                                                    \
	F(zeDriverGet, uint32_t *count, ze_driver *drivers)                                                          \
	F(zeDriverGetApiVersion, ze_driver driver, uint32_t *version)                                                \
	F(zeDriverGetProperties, ze_driver driver, struct ze_driver_properties *properties)                          \
	F(zeDeviceGet, ze_driver driver, uint32_t *count, ze_device *devices)                                        \
	F(zeDeviceGetProperties, ze_device device, struct ze_device_properties *properties)                          \
	F(zeDeviceGetCommandQueueGroupProperties, ze_device device, uint32_t *count,                                 \
	  struct ze_queue_group_properties *properties)                                                              \
	F(zeContextCreate, ze_driver driver, const struct ze_flags_description *description, ze_context *context)    \
	F(zeContextDestroy, ze_context context)                                                                      \
	F(zeMemAllocHost, ze_context context, const struct ze_flags_description *description, size_t size,           \
	  size_t alignment, void **memory)                                                                           \
	F(zeMemAllocDevice, ze_context context, const struct ze_ordinal_description *description, size_t size,       \
	  size_t alignment, ze_device device, void **memory)                                                         \
	F(zeMemAllocShared, ze_context context, const struct ze_ordinal_description *device_description,             \
	  const struct ze_flags_description *host_description, size_t size, size_t alignment, ze_device device,      \
	  void **memory)                                                                                             \
	F(zeMemFree, ze_context context, void *memory)                                                               \
	F(zeCommandQueueCreate, ze_context context, ze_device device, const struct ze_queue_description *description,\
	  ze_queue *queue)                                                                                           \
	F(zeCommandQueueDestroy, ze_queue queue)                                                                     \
	F(zeCommandQueueExecuteCommandLists, ze_queue queue, uint32_t count, ze_list *lists, ze_fence fence)         \
	F(zeCommandQueueSynchronize, ze_queue queue, uint64_t timeout_ns)                                            \
	F(zeCommandListCreate, ze_context context, ze_device device, const struct ze_ordinal_description *description,\
	  ze_list *list)                                                                                             \
	F(zeCommandListAppendMemoryCopy, ze_list list, void *target, const void *source, size_t size, ze_event signal,  \
	  uint32_t count, ze_event *waits)                                                                               \
	F(zeCommandListAppendBarrier, ze_list list, ze_event signal, uint32_t count, ze_event *waits)                       \
	F(zeCommandListClose, ze_list list)                                                                          \
	F(zeCommandListReset, ze_list list)                                                                          \
	F(zeCommandListDestroy, ze_list list)                                                                        \
	F(zeFenceCreate, ze_queue queue, const struct ze_flags_description *description, ze_fence *fence)            \
	F(zeFenceHostSynchronize, ze_fence fence, uint64_t timeout_ns)                                               \
	F(zeFenceQueryStatus, ze_fence fence)                                                                        \
	F(zeFenceReset, ze_fence fence)                                                                              \
	F(zeFenceDestroy, ze_fence fence)

#define ZE_OTHER_FUNCTIONS(F)                                                                                        \
	F(zeDriverGetExtensionProperties, ze_driver driver, uint32_t *count, struct ze_extension_properties *properties)\
	F(zeDriverGetExtensionFunctionAddress, ze_driver driver, const char *name, void **address)                   \
	F(zeDeviceGetExternalMemoryProperties, ze_device device, struct ze_external_memory_properties *properties)   \
	F(zeDeviceGetStatus, ze_device device)                                                                       \
	F(zeDeviceGetGlobalTimestamps, ze_device device, uint64_t *host, uint64_t *npu)                              \
	F(zeDevicePciGetPropertiesExt, ze_device device, struct ze_pci_properties *properties)                       \
	F(zeMemGetAllocProperties, ze_context context, const void *memory, struct ze_allocation_properties *properties,\
	  ze_device *device)                                                                                         \
	F(zeMemGetAddressRange, ze_context context, const void *memory, void **base, size_t *size)                   \
	F(zeCommandListCreateImmediate, ze_context context, ze_device device,                                        \
	  const struct ze_queue_description *description, ze_list *list)                                             \
	F(zeCommandListAppendWriteGlobalTimestamp, ze_list list, uint64_t *target, ze_event signal, uint32_t count,  \
	  ze_event *waits)                                                                                           \
	F(zeCommandListAppendSignalEvent, ze_list list, ze_event event)                                              \
	F(zeCommandListAppendWaitOnEvents, ze_list list, uint32_t count, ze_event *events)                           \
	F(zeCommandListAppendEventReset, ze_list list, ze_event event)                                               \
	F(zeCommandListHostSynchronize, ze_list list, uint64_t timeout_ns)                                           \
	F(zeEventPoolCreate, ze_context context, const struct ze_event_pool_description *description, uint32_t count,\
	  ze_device *devices, ze_event_pool *pool)                                                                   \
	F(zeEventPoolDestroy, ze_event_pool pool)                                                                    \
	F(zeEventCreate, ze_event_pool pool, const struct ze_event_description *description, ze_event *event)        \
	F(zeEventDestroy, ze_event event)                                                                            \
	F(zeEventHostSignal, ze_event event)                                                                         \
	F(zeEventHostSynchronize, ze_event event, uint64_t timeout_ns)                                               \
	F(zeEventQueryStatus, ze_event event)                                                                        \
	F(zeEventHostReset, ze_event event)

#define ZE_FUNCTIONS(F) ZE_LOAD_FUNCTIONS(F) ZE_OTHER_FUNCTIONS(F)

#define ZE_TYPE(name, ...) typedef ze_result name##_type(__VA_ARGS__);
ZE_FUNCTIONS(ZE_TYPE)
#undef ZE_TYPE

#endif
