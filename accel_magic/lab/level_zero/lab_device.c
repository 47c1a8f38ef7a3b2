/* SPDX-License-Identifier: Apache-2.0 */
/* Driver, device, context. zeInit opens the device, reads its parameters and closes it; a context keeps it open. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lab_driver.h"

#define MINORS 64
#define INTEL 0x8086
#define FIRMWARE_INTERFACES 2 /* firmware interfaces whose versions are read, twice each, as Intel's driver does */

static const uint32_t firmware_interfaces[FIRMWARE_INTERFACES] = { 7, 3 }; /* inference, jobs */

/* By this UUID OpenVINO recognizes Intel's driver, whose interface this one has. */
static const uint8_t driver_uuid[] = { 0x01, 0x7d, 0xe9, 0x31, 0x6b, 0x4d, 0x4f, 0xd4,
				       0xaa, 0x9b, 0x5b, 0xed, 0x77, 0xfc, 0x8e, 0x89 };

static const struct {
	const char *name;
	uint32_t version;
	const entry *table; /* NULL: its functions are in the loader's tables */
} extensions[] = {
	{ GRAPH_EXTENSION, GRAPH_VERSION, graph_table },
	{ PROFILING_EXTENSION, ZE_VERSION(1, 0), profiling_table },
	{ QUEUE_EXTENSION, ZE_VERSION(1, 1), queue_extension_table },
	{ CONTEXT_EXTENSION, ZE_VERSION(1, 0), context_extension_table },
	{ MUTABLE_LISTS_EXTENSION, ZE_VERSION(1, 1), NULL }, /* the last: only with a loader that has the functions */
};

struct ze_device lab_device;
static struct ze_driver lab_driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t param(int fd, uint32_t id, uint32_t index)
{
	struct npu_param param = { .param = id, .index = index };

	return ioctl(fd, NPU_IOCTL_GET_PARAM, &param) ? 0 : param.value;
}

static bool is_npu(int fd)
{
	char name[16] = "";
	struct npu_version version = { 0 };

	if (ioctl(fd, NPU_IOCTL_VERSION, &version))
		return false;
	version = (struct npu_version){ .name = (uintptr_t)name, .name_size = sizeof(name) - 1 };
	return !ioctl(fd, NPU_IOCTL_VERSION, &version) && !strcmp(name, "intel_vpu");
}

/* Read what Intel's driver reads, in its order: 14 parameters, some of which are not used here. */
static void query_device(int fd, struct ze_device *device)
{
	struct drm_capability prime = { .which = DRM_CAPABILITY_PRIME };

	device->id = param(fd, NPU_PARAM_DEVICE_ID, 0);
	device->revision = param(fd, NPU_PARAM_DEVICE_REVISION, 0);
	device->contexts = param(fd, NPU_PARAM_NUM_CONTEXTS, 0);
	device->clock_mhz = param(fd, NPU_PARAM_CORE_CLOCK_RATE, 0);
	param(fd, NPU_PARAM_PLATFORM_TYPE, 0);
	for (int i = 0; i < FIRMWARE_INTERFACES; i++)
		param(fd, NPU_PARAM_FW_API_VERSION, firmware_interfaces[i]);
	device->tiles = (uint32_t)__builtin_popcountll(param(fd, NPU_PARAM_TILE_CONFIG, 0));
	device->preemption_size = param(fd, NPU_PARAM_PREEMPT_BUFFER_SIZE, 0);
	ioctl(fd, DRM_IOCTL_CAPABILITY, &prime);
	param(fd, NPU_PARAM_CAPABILITIES, NPU_CAP_METRIC_STREAMER);
	device->dma_range = param(fd, NPU_PARAM_CAPABILITIES, NPU_CAP_DMA_MEMORY_RANGE);
	device->queues = param(fd, NPU_PARAM_CAPABILITIES, NPU_CAP_MANAGE_CMDQ);
	for (int i = 0; i < FIRMWARE_INTERFACES; i++)
		param(fd, NPU_PARAM_FW_API_VERSION, firmware_interfaces[i]);
}

int open_device(const struct ze_device *device)
{
	return open(device->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

static void find_device(void)
{
	for (int minor = 0; minor < MINORS && !lab_driver.devices; minor++) {
		int fd;

		snprintf(lab_device.name, sizeof(lab_device.name), "accel%d", minor);
		snprintf(lab_device.path, sizeof(lab_device.path), "/dev/accel/accel%d", minor);
		fd = open_device(&lab_device);
		if (fd < 0)
			continue;
		if (is_npu(fd)) {
			query_device(fd, &lab_device);
			lab_driver.devices = 1;
		}
		close(fd);
	}
}

ze_result lab_zeInit(uint32_t flags)
{
	if (flags && !(flags & ZE_INIT_NPU_ONLY))
		return ZE_UNINITIALIZED;
	pthread_once(&once, find_device);
	return lab_driver.devices ? ZE_SUCCESS : ZE_UNINITIALIZED;
}

/* Check the arguments of a Get function for a list of one element: with *count 0 it only returns the number. */
static ze_result return_one(uint32_t *count, bool wanted)
{
	if (!count || (*count && !wanted))
		return ZE_INVALID_NULL_POINTER;
	*count = 1;
	return ZE_SUCCESS;
}

ze_result lab_zeDriverGet(uint32_t *count, ze_driver *drivers)
{
	if (!lab_driver.devices)
		return ZE_UNINITIALIZED;
	if (count && *count && drivers)
		*drivers = &lab_driver;
	return return_one(count, drivers);
}

ze_result lab_zeDriverGetApiVersion(ze_driver driver, uint32_t *version)
{
	if (!driver || !version)
		return driver ? ZE_INVALID_NULL_POINTER : ZE_INVALID_NULL_HANDLE;
	*version = ZE_VERSION_1_0;
	return ZE_SUCCESS;
}

ze_result lab_zeDriverGetProperties(ze_driver driver, struct ze_driver_properties *properties)
{
	if (!driver || !properties)
		return driver ? ZE_INVALID_NULL_POINTER : ZE_INVALID_NULL_HANDLE;
	memcpy(properties->uuid, driver_uuid, sizeof(driver_uuid));
	properties->version = DRIVER_VERSION;
	return ZE_SUCCESS;
}

ze_result lab_zeDriverGetExtensionProperties(ze_driver driver, uint32_t *count, struct ze_extension_properties *properties)
{
	const uint32_t known = sizeof(extensions) / sizeof(*extensions) - !lists_can_change;

	if (!driver)
		return ZE_INVALID_NULL_HANDLE;
	if (!count)
		return ZE_INVALID_NULL_POINTER;
	if (!*count || *count > known)
		*count = known;
	for (uint32_t i = 0; properties && i < *count; i++) {
		memset(properties + i, 0, sizeof(*properties));
		memcpy(properties[i].name, extensions[i].name, strlen(extensions[i].name));
		properties[i].version = extensions[i].version;
	}
	return ZE_SUCCESS;
}

ze_result lab_zeDriverGetExtensionFunctionAddress(ze_driver driver, const char *name, void **address)
{
	if (!driver)
		return ZE_INVALID_NULL_HANDLE;
	if (!name || !address)
		return ZE_INVALID_NULL_POINTER;
	for (size_t i = 0; i < sizeof(extensions) / sizeof(*extensions); i++)
		if (extensions[i].table && !strcmp(name, extensions[i].name)) {
			*address = (void *)extensions[i].table;
			return ZE_SUCCESS;
		}
	return ZE_UNSUPPORTED_FEATURE;
}

ze_result lab_zeDeviceGet(ze_driver driver, uint32_t *count, ze_device *devices)
{
	if (!driver)
		return ZE_INVALID_NULL_HANDLE;
	if (count && *count && devices)
		*devices = &lab_device;
	return return_one(count, devices);
}

ze_result lab_zeDeviceGetProperties(ze_device device, struct ze_device_properties *properties)
{
	struct ze_device_properties answer = {
		.type = ZE_DEVICE_NPU,
		.vendor = INTEL,
		.flags = ZE_DEVICE_INTEGRATED,
		.compute_units = { 1, 1, 1, 1 },
		.timestamp_bits = 64,
		.name = DRIVER_NAME " (emulated: OpenVINO computes on the host's CPU)",
	};

	if (!device || !properties)
		return device ? ZE_INVALID_NULL_POINTER : ZE_INVALID_NULL_HANDLE;
	answer.kind = properties->kind;
	answer.next = properties->next;
	answer.device = device->id;
	answer.subdevice = device->revision;
	answer.clock_mhz = device->clock_mhz;
	answer.most_contexts = device->contexts;
	answer.most_memory = memory_size();
	answer.compute_units[4] = device->tiles ? device->tiles : 1;
	/* Nanoseconds per tick; for the newer structure ticks per second. */
	answer.timer_resolution = properties->kind == ZE_KIND_DEVICE_PROPERTIES_1_2 ? 1000000000 : 1;
	memcpy(answer.uuid, DRIVER_NAME, sizeof(DRIVER_NAME));
	*properties = answer;
	return ZE_SUCCESS;
}

ze_result lab_zeDeviceGetCommandQueueGroupProperties(ze_device device, uint32_t *count,
						     struct ze_queue_group_properties *properties)
{
	if (!device)
		return ZE_INVALID_NULL_HANDLE;
	if (count && *count && properties) {
		properties->flags = ZE_GROUP_COMPUTE | ZE_GROUP_COPY;
		properties->most_fill_pattern = sizeof(uint32_t);
		properties->queues = 1;
	}
	return return_one(count, properties);
}

ze_result lab_zeDeviceGetExternalMemoryProperties(ze_device device, struct ze_external_memory_properties *properties)
{
	if (!device || !properties)
		return device ? ZE_INVALID_NULL_POINTER : ZE_INVALID_NULL_HANDLE;
	properties->memory_import = properties->memory_export = 0;
	properties->image_import = properties->image_export = 0;
	return ZE_SUCCESS;
}

ze_result lab_zeDeviceGetStatus(ze_device device)
{
	return device ? ZE_SUCCESS : ZE_INVALID_NULL_HANDLE;
}

ze_result lab_zeDevicePciGetPropertiesExt(ze_device device, struct ze_pci_properties *properties)
{
	char path[64], target[256], *slot;
	ssize_t length;

	if (!device || !properties)
		return device ? ZE_INVALID_NULL_POINTER : ZE_INVALID_NULL_HANDLE;
	snprintf(path, sizeof(path), "/sys/class/accel/%s/device", device->name);
	length = readlink(path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = 0;
	slot = strrchr(target, '/');
	if (!slot || sscanf(slot, "/%x:%x:%x.%x", &properties->domain, &properties->bus, &properties->device,
			    &properties->function) != 4)
		return ZE_UNKNOWN;
	properties->generation = properties->width = -1;
	properties->bandwidth = -1;
	return ZE_SUCCESS;
}

/* As Intel's driver does, with a job that reads the device's clock. */
ze_result lab_zeDeviceGetGlobalTimestamps(ze_device device, uint64_t *host, uint64_t *npu)
{
	struct ze_context *context;
	struct ze_flags_description description = { .kind = ZE_KIND_CONTEXT }, memory = { .kind = ZE_KIND_HOST_MEMORY };
	struct job_span span;
	void *word;
	ze_result result;

	if (!device)
		return ZE_INVALID_NULL_HANDLE;
	if (!host || !npu)
		return ZE_INVALID_NULL_POINTER;
	result = lab_zeContextCreate(&lab_driver, &description, &context);
	if (result)
		return result;
	result = lab_zeMemAllocHost(context, &memory, sizeof(uint64_t), 0, &word);
	if (!result)
		result = span_of(context, word, sizeof(uint64_t), &span);
	if (!result)
		result = run_command(context, JOB_TIMESTAMP, 0, 1, &span);
	if (!result) {
		*host = (uint64_t)now_ns();
		memcpy(npu, word, sizeof(*npu));
	}
	lab_zeContextDestroy(context);
	return result;
}

ze_result lab_zeContextCreate(ze_driver driver, const struct ze_flags_description *description, ze_context *context)
{
	struct ze_context *made;

	if (!driver)
		return ZE_INVALID_NULL_HANDLE;
	if (!description || !context)
		return ZE_INVALID_NULL_POINTER;
	made = calloc(1, sizeof(*made));
	if (!made)
		return ZE_OUT_OF_HOST_MEMORY;
	made->device = &lab_device;
	made->fd = open_device(&lab_device);
	if (made->fd < 0) {
		free(made);
		return ZE_DEVICE_LOST;
	}
	pthread_mutex_init(&made->lock, NULL);
	*context = made;
	return ZE_SUCCESS;
}

ze_result lab_zeContextDestroy(ze_context context)
{
	if (!context)
		return ZE_INVALID_NULL_HANDLE;
	if (context->queue)
		lab_zeCommandQueueDestroy(context->queue);
	while (context->buffers) {
		struct buffer *buffer = context->buffers;

		context->buffers = buffer->next;
		release(buffer);
	}
	close(context->fd);
	pthread_mutex_destroy(&context->lock);
	free(context);
	return ZE_SUCCESS;
}
