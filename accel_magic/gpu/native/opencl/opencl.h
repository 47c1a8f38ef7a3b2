/* OpenCL's types and constants, as far as the layer needs them, and the calls of the layer below.
 *
 * Numbers are from the OpenCL specification and its extensions; places in the table of calls are an ABI of loaders and
 * vendors (cl_khr_icd).
 */
#ifndef ACCEL_OPENCL_H
#define ACCEL_OPENCL_H

#include <stddef.h>
#include <stdint.h>

typedef void *Handle;

enum { SUCCESS = 0, OUT_OF_HOST_MEMORY = -6, INVALID_VALUE = -30, NOT_SUPPORTED = -59 };
enum { TRUE_ = 1, COMPLETE = 0 };

/* Properties. */
enum {
	PLATFORM_NAME = 0x0902,
	DEVICE_NAME = 0x102B,
	DEVICE_EXTENSIONS = 0x1030,
	DEVICE_PLATFORM = 0x1031,
	DEVICE_SVM = 0x1053,
	CONTEXT_DEVICES = 0x1081,
	QUEUE_DEVICE = 0x1091,
	PROGRAM_REFERENCES = 0x1160,
	PROGRAM_BINARY_SIZES = 0x1165,
	PROGRAM_BINARIES = 0x1166,
	BUILD_LOG = 0x1183,
	KERNEL_NAME = 0x1190,
	KERNEL_REFERENCES = 0x1192,
	WORK_GROUP_SIZE = 0x11B0,
	KERNEL_SVM_POINTERS = 0x11B6,
	EVENT_STATUS = 0x11D3,
	SUB_GROUP_SIZE = 0x2033,
	KERNEL_HOST_ACCESS = 0x4200,
	KERNEL_DEVICE_ACCESS = 0x4201,
};

/* Capabilities of shared virtual memory, and flags of its allocation. */
enum { FINE_GRAIN_BUFFER = 2, FINE_GRAIN_SYSTEM = 4, SVM_ATOMICS = 8 };
enum { MEMORY_READ_WRITE = 1, MEMORY_FINE_GRAIN = 1 << 10, MEMORY_ATOMICS = 1 << 11 };

typedef void Notify(Handle program, void *data);

/* Name, place in the table, result, arguments. */
#define CALLS(X)                                                                                                      \
	X(clGetPlatformInfo, 1, int, (Handle platform, unsigned what, size_t size, void *value, size_t *needed))      \
	X(clGetDeviceInfo, 3, int, (Handle device, unsigned what, size_t size, void *value, size_t *needed))          \
	X(clRetainContext, 6, int, (Handle context))                                                                  \
	X(clGetContextInfo, 8, int, (Handle context, unsigned what, size_t size, void *value, size_t *needed))        \
	X(clCreateCommandQueue, 9, Handle, (Handle context, Handle device, uint64_t properties, int *error))          \
	X(clGetCommandQueueInfo, 12, int, (Handle queue, unsigned what, size_t size, void *value, size_t *needed))    \
	X(clCreateProgramWithSource, 26, Handle,                                                                      \
	  (Handle context, unsigned count, const char **texts, const size_t *sizes, int *error))                      \
	X(clCreateProgramWithBinary, 27, Handle,                                                                      \
	  (Handle context, unsigned count, const Handle *devices, const size_t *sizes, const unsigned char **binaries, \
	   int *status, int *error))                                                                                  \
	X(clReleaseProgram, 29, int, (Handle program))                                                                \
	X(clBuildProgram, 30, int,                                                                                    \
	  (Handle program, unsigned count, const Handle *devices, const char *options, Notify *notify, void *data))   \
	X(clGetProgramInfo, 32, int, (Handle program, unsigned what, size_t size, void *value, size_t *needed))       \
	X(clGetProgramBuildInfo, 33, int,                                                                             \
	  (Handle program, Handle device, unsigned what, size_t size, void *value, size_t *needed))                   \
	X(clCreateKernel, 34, Handle, (Handle program, const char *name, int *error))                                 \
	X(clCreateKernelsInProgram, 35, int, (Handle program, unsigned count, Handle *kernels, unsigned *needed))     \
	X(clReleaseKernel, 37, int, (Handle kernel))                                                                  \
	X(clGetKernelInfo, 39, int, (Handle kernel, unsigned what, size_t size, void *value, size_t *needed))         \
	X(clGetKernelWorkGroupInfo, 40, int,                                                                          \
	  (Handle kernel, Handle device, unsigned what, size_t size, void *value, size_t *needed))                    \
	X(clGetEventInfo, 42, int, (Handle event, unsigned what, size_t size, void *value, size_t *needed))           \
	X(clRetainEvent, 43, int, (Handle event))                                                                     \
	X(clReleaseEvent, 44, int, (Handle event))                                                                    \
	X(clFlush, 46, int, (Handle queue))                                                                           \
	X(clFinish, 47, int, (Handle queue))                                                                          \
	X(clEnqueueNDRangeKernel, 59, int,                                                                            \
	  (Handle queue, Handle kernel, unsigned axes, const size_t *offset, const size_t *items, const size_t *group, \
	   unsigned count, const Handle *events, Handle *event))                                                      \
	X(clEnqueueTask, 60, int, (Handle queue, Handle kernel, unsigned count, const Handle *events, Handle *event)) \
	X(clGetExtensionFunctionAddress, 65, void *, (const char *name))                                              \
	X(clLinkProgram, 99, Handle,                                                                                  \
	  (Handle context, unsigned count, const Handle *devices, const char *options, unsigned inputs,               \
	   const Handle *programs, Notify *notify, void *data, int *error))                                           \
	X(clGetKernelArgInfo, 101, int,                                                                               \
	  (Handle kernel, unsigned argument, unsigned what, size_t size, void *value, size_t *needed))                \
	X(clGetExtensionFunctionAddressForPlatform, 107, void *, (Handle platform, const char *name))                 \
	X(clSVMAlloc, 126, void *, (Handle context, uint64_t flags, size_t size, unsigned alignment))                 \
	X(clSVMFree, 127, void, (Handle context, void *memory))                                                       \
	X(clSetKernelExecInfo, 135, int, (Handle kernel, unsigned what, size_t size, const void *value))              \
	X(clCloneKernel, 137, Handle, (Handle kernel, int *error))                                                    \
	X(clCreateProgramWithIL, 138, Handle, (Handle context, const void *code, size_t size, int *error))            \
	X(clGetKernelSubGroupInfo, 142, int,                                                                          \
	  (Handle kernel, Handle device, unsigned what, size_t given, const void *input, size_t size, void *value,    \
	   size_t *needed))                                                                                           \
	X(clSetProgramSpecializationConstant, 145, int,                                                               \
	  (Handle program, unsigned number, size_t size, const void *value))

#define CALL(name, at, result, arguments) typedef result name##_call arguments;
CALLS(CALL)
#undef CALL
#define PLACE(name, at, result, arguments) AT_##name = at,
enum { CALLS(PLACE) };
#undef PLACE

enum { MOST_CALLS = 1024 };

/* The calls of the layer below, or of the driver; null beyond those of the loader. */
extern void *below[MOST_CALLS];

#define BELOW(name) ((name##_call *)below[AT_##name])

/* Read a property of a handle: 1 if it has this size. */
#define READ(call, handle, what, value) (!BELOW(call)((handle), (what), sizeof(value), &(value), NULL))

/* A function of an extension of the device's platform; null if there is none. */
void *extension(Handle device, const char *name);

#endif
