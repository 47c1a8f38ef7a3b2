/* A mock of Level Zero that runs kernels on OpenCL: libze_loader.so.1, as far as the tests need it.
 *
 * MOCK_NAME is the device's name; else it is OpenCL's. MOCK_INTEGRATED: the device uses the host's memory. OPENCL_LIBRARY is
 * the loader's path.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../../../accel_magic/gpu/native/level_zero/level_zero.h"

enum { ALL = -1, CL_NAME = 0x102B, HOST = 0x4200, DEVICE = 0x4201, WORK_GROUP = 0x11B0, SUB_GROUP = 0x2033, LOG = 0x1183 };
enum { FAILED = 0x70000004, REFUSED = 0x78000004, OPERATIONS = 256 };

static void *library, *cl_context, *cl_device, *cl_queue;

#define CL(result, name, ...) ((result (*)())dlsym(library, #name))(__VA_ARGS__)

typedef void *Alloc();
static Alloc *alloc_host, *alloc_device;
static int (*free_usm)(), (*set_pointer)(), (*copy_usm)(), (*fill_usm)();

struct module {
	void *program;
};

struct kernel {
	void *handle;
	uint32_t block[3];
};

struct operation {
	void *kernel; /* null: copy or fill */
	uint32_t grid[3], block[3];
	void *to;
	const void *from;
	size_t size;
	unsigned char pattern[16];
	size_t pattern_size;
};

struct list {
	int is_immediate, count;
	struct operation operations[OPERATIONS];
};

Result zeInit(uint32_t flags)
{
	void *platform;
	int error;

	if (cl_context)
		return 0;
	library = dlopen(getenv("OPENCL_LIBRARY"), RTLD_NOW);
	if (!library || CL(int, clGetPlatformIDs, 1, &platform, NULL))
		return FAILED;
	CL(int, clGetDeviceIDs, platform, (long)ALL, 1, &cl_device, NULL);
	cl_context = CL(void *, clCreateContext, NULL, 1, &cl_device, NULL, NULL, &error);
	cl_queue = CL(void *, clCreateCommandQueue, cl_context, cl_device, 0l, &error);
#define FIND(name) CL(void *, clGetExtensionFunctionAddressForPlatform, platform, name)
	alloc_host = (Alloc *)FIND("clHostMemAllocINTEL");
	alloc_device = (Alloc *)FIND("clDeviceMemAllocINTEL");
	free_usm = (int (*)())FIND("clMemBlockingFreeINTEL");
	set_pointer = (int (*)())FIND("clSetKernelArgMemPointerINTEL");
	copy_usm = (int (*)())FIND("clEnqueueMemcpyINTEL");
	fill_usm = (int (*)())FIND("clEnqueueMemFillINTEL");
	return 0;
}

Result zeDriverGet(uint32_t *count, Handle *drivers)
{
	*count = 1;
	if (drivers)
		*drivers = &library;
	return 0;
}

Result zeDeviceGet(Handle driver, uint32_t *count, Handle *devices)
{
	*count = 1;
	if (devices)
		*devices = cl_device;
	return 0;
}

Result zeDeviceGetProperties(Handle device, struct ze_device *properties)
{
	const char *name = getenv("MOCK_NAME");

	properties->type = DEVICE_GPU;
	properties->flags = getenv("MOCK_INTEGRATED") ? DEVICE_INTEGRATED : 0;
	CL(int, clGetDeviceInfo, device, CL_NAME, sizeof properties->name, properties->name, NULL);
	if (name)
		strcpy(properties->name, name);
	return 0;
}

Result zeContextCreate(Handle driver, const void *about, Handle *context)
{
	*context = cl_context;
	return 0;
}

Result zeContextDestroy(Handle context)
{
	return 0;
}

Result zeModuleCreate(Handle context, Handle device, const struct ze_module *about, Handle *module, Handle *log)
{
	struct module *made = calloc(1, sizeof *made);
	char *text = calloc(1, 65536);
	int error;

	if (about->format == FORMAT_SPIRV) {
		made->program = CL(void *, clCreateProgramWithIL, cl_context, about->data, about->size, &error);
	} else {
		const void *data = about->data;

		made->program = CL(void *, clCreateProgramWithBinary, cl_context, 1, &device, &about->size, &data, NULL, &error);
	}
	if (made->program)
		error = CL(int, clBuildProgram, made->program, 1, &device, "", NULL, NULL);
	if (getenv("MOCK_REJECTS")) {
		unsetenv("MOCK_REJECTS");
		error = 1;
	}
	strcpy(text, "error: the mock rejects it");
	if (log)
		*log = text;
	if (error)
		return FAILED;
	*module = made;
	return 0;
}

Result zeModuleDestroy(Handle module)
{
	return 0;
}

Result zeModuleGetNativeBinary(Handle module, size_t *size, uint8_t *data)
{
	void *program = ((struct module *)module)->program;

	if (!data)
		return CL(int, clGetProgramInfo, program, 0x1165, sizeof *size, size, NULL);
	return CL(int, clGetProgramInfo, program, 0x1166, sizeof data, &data, NULL);
}

Result zeModuleBuildLogGetString(Handle log, size_t *size, char *text)
{
	if (text)
		snprintf(text, *size, "%s", (char *)log);
	*size = strlen(log) + 1;
	return 0;
}

Result zeModuleBuildLogDestroy(Handle log)
{
	free(log);
	return 0;
}

Result zeKernelCreate(Handle module, const struct ze_kernel *about, Handle *kernel)
{
	struct kernel *made = calloc(1, sizeof *made);
	int error;

	made->handle = CL(void *, clCreateKernel, ((struct module *)module)->program, about->name, &error);
	*kernel = made;
	return made->handle ? 0 : REFUSED;
}

Result zeKernelDestroy(Handle kernel)
{
	return 0;
}

Result zeKernelSetGroupSize(Handle kernel, uint32_t x, uint32_t y, uint32_t z)
{
	memcpy(((struct kernel *)kernel)->block, (uint32_t[]){x, y, z}, 12);
	return 0;
}

Result zeKernelSetArgumentValue(Handle kernel, uint32_t number, size_t size, const void *value)
{
	void *handle = ((struct kernel *)kernel)->handle;

	if (size == sizeof(void *) && !set_pointer(handle, number, *(void **)value))
		return 0;
	return CL(int, clSetKernelArg, handle, number, size, value) ? REFUSED : 0;
}

/* Flags are 1 for the host's memory and 2 for the device's: without them, kernels must not follow pointers. */
Result zeKernelSetIndirectAccess(Handle kernel, uint32_t flags)
{
	unsigned host = flags & 1, device = flags >> 1 & 1;
	void *handle = ((struct kernel *)kernel)->handle;

	CL(int, clSetKernelExecInfo, handle, HOST, sizeof host, &host);
	CL(int, clSetKernelExecInfo, handle, DEVICE, sizeof device, &device);
	return 0;
}

Result zeKernelGetProperties(Handle kernel, struct ze_kernel_properties *properties)
{
	void *handle = ((struct kernel *)kernel)->handle;
	size_t group = 0, lanes = 0;

	CL(int, clGetKernelWorkGroupInfo, handle, cl_device, WORK_GROUP, sizeof group, &group, NULL);
	CL(int, clGetKernelSubGroupInfo, handle, cl_device, SUB_GROUP, sizeof group, &group, sizeof lanes, &lanes, NULL);
	properties->most_lanes = lanes;
	return 0;
}

Result zeMemAllocHost(Handle context, const void *about, size_t size, size_t alignment, void **memory)
{
	int error = 0;

	*memory = alloc_host(cl_context, NULL, size, 0, &error);
	return error ? FAILED : 0;
}

Result zeMemAllocDevice(Handle context, const void *about, size_t size, size_t alignment, Handle device, void **memory)
{
	int error = 0;

	*memory = alloc_device(cl_context, cl_device, NULL, size, 0, &error);
	return error ? FAILED : 0;
}

Result zeMemFree(Handle context, void *memory)
{
	return free_usm(cl_context, memory) ? FAILED : 0;
}

Result zeCommandQueueCreate(Handle context, Handle device, const void *about, Handle *queue)
{
	*queue = cl_queue;
	return 0;
}

Result zeCommandQueueSynchronize(Handle queue, uint64_t timeout)
{
	return CL(int, clFinish, cl_queue) ? FAILED : 0;
}

Result zeCommandListCreate(Handle context, Handle device, const void *about, Handle *list)
{
	*list = calloc(1, sizeof(struct list));
	return 0;
}

Result zeCommandListCreateImmediate(Handle context, Handle device, const void *about, Handle *list)
{
	zeCommandListCreate(context, device, about, list);
	((struct list *)*list)->is_immediate = 1;
	return 0;
}

Result zeCommandListClose(Handle list)
{
	return 0;
}

Result zeCommandListReset(Handle list)
{
	((struct list *)list)->count = 0;
	return 0;
}

Result zeCommandListDestroy(Handle list)
{
	return 0;
}

static Result run(const struct operation *one)
{
	size_t items[3], group[3];
	int error;

	if (!one->kernel && one->pattern_size)
		return fill_usm(cl_queue, one->to, one->pattern, one->pattern_size, one->size, 0, NULL, NULL) ? FAILED : 0;
	if (!one->kernel)
		return copy_usm(cl_queue, 0, one->to, one->from, one->size, 0, NULL, NULL) ? FAILED : 0;
	for (int i = 0; i < 3; i++) {
		group[i] = one->block[i];
		items[i] = group[i] * one->grid[i];
	}
	error = CL(int, clEnqueueNDRangeKernel, cl_queue, one->kernel, 3, NULL, items, group, 0, NULL, NULL);
	return error ? FAILED : 0;
}

static Result append(Handle handle, const struct operation *operation)
{
	struct list *list = handle;
	Result error;

	if (!list->is_immediate) {
		list->operations[list->count++] = *operation;
		return 0;
	}
	error = run(operation);
	CL(int, clFinish, cl_queue);
	return error;
}

Result zeCommandListAppendLaunchKernel(Handle list, Handle kernel, const struct ze_groups *groups, Handle event,
				       uint32_t count, Handle *events)
{
	struct operation operation = {0};
	struct kernel *known = kernel;
	int error;

	operation.kernel = CL(void *, clCloneKernel, known->handle, &error); /* with its present arguments */
	memcpy(operation.grid, groups, sizeof operation.grid);
	memcpy(operation.block, known->block, sizeof operation.block);
	return append(list, &operation);
}

Result zeCommandListAppendMemoryCopy(Handle list, void *to, const void *from, size_t size, Handle event, uint32_t count,
				     Handle *events)
{
	struct operation operation = {.to = to, .from = from, .size = size};

	return append(list, &operation);
}

Result zeCommandListAppendMemoryFill(Handle list, void *memory, const void *pattern, size_t pattern_size, size_t size,
				     Handle event, uint32_t count, Handle *events)
{
	struct operation operation = {.to = memory, .size = size, .pattern_size = pattern_size};

	memcpy(operation.pattern, pattern, pattern_size);
	return append(list, &operation);
}

Result zeCommandListAppendBarrier(Handle list, Handle event, uint32_t count, Handle *events)
{
	return 0; /* the queue runs everything in order */
}

Result zeCommandQueueExecuteCommandLists(Handle queue, uint32_t count, Handle *lists, Handle fence)
{
	for (uint32_t i = 0; i < count; i++) {
		struct list *list = lists[i];

		for (int at = 0; at < list->count; at++)
			if (run(&list->operations[at]))
				return FAILED;
	}
	return 0;
}
