/* The driver's own functions, bypassing the wrappers. */
#ifndef ACCEL_DRIVER_H
#define ACCEL_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef void *Handle;
typedef uint64_t Address;

enum { HOST_PORTABLE = 1, HOST_DEVICEMAP = 2, CAPTURE_RELAXED = 2, NON_BLOCKING = 1 };
enum { OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801 };
enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 };

#define DRIVER_CALLS(X)                                                                              \
	X(ctx_get_current, cuCtxGetCurrent, (Handle * context))                                      \
	X(ctx_get_device, cuCtxGetDevice, (int *device))                                             \
	X(ctx_push, cuCtxPushCurrent_v2, (Handle context))                                           \
	X(ctx_pop, cuCtxPopCurrent_v2, (Handle * context))                                           \
	X(device_count, cuDeviceGetCount, (int *count))                                              \
	X(device_get, cuDeviceGet, (int *device, int ordinal))                                       \
	X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, int device))           \
	X(primary_retain, cuDevicePrimaryCtxRetain, (Handle * context, int device))                  \
	X(driver_version, cuDriverGetVersion, (int *version))                                        \
	X(mem_alloc, cuMemAlloc_v2, (Address * address, size_t size))                                \
	X(mem_free, cuMemFree_v2, (Address address))                                                 \
	X(host_alloc, cuMemHostAlloc, (void **memory, size_t size, unsigned flags))                  \
	X(host_free, cuMemFreeHost, (void *memory))                                                  \
	X(host_address, cuMemHostGetDevicePointer_v2, (Address * address, void *memory, unsigned flags)) \
	X(to_device, cuMemcpyHtoD_v2, (Address to, const void *from, size_t size))                   \
	X(to_host, cuMemcpyDtoHAsync_v2, (void *to, Address from, size_t size, Handle stream))       \
	X(stream_create, cuStreamCreate, (Handle * stream, unsigned flags))                          \
	X(stream_wait, cuStreamSynchronize, (Handle stream))

/* Missing in some drivers: may be null. */
#define OPTIONAL_CALLS(X)                                                                            \
	X(host_register, cuMemHostRegister_v2, (void *memory, size_t size, unsigned flags))          \
	X(host_unregister, cuMemHostUnregister, (void *memory))                                      \
	X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                              \
	X(is_capturing, cuStreamIsCapturing, (Handle stream, int *status))                           \
	X(kernel_name, cuKernelGetName, (const char **name, Handle kernel))                          \
	X(function_name, cuFuncGetName, (const char **name, Handle function))                        \
	X(library_load, cuLibraryLoadData,                                                           \
	  (Handle * library, const void *code, int *options, void **values, unsigned count,          \
	   int *library_options, void **library_values, unsigned library_count))                     \
	X(library_kernel, cuLibraryGetKernel, (Handle * kernel, Handle library, const char *name))

struct driver {
#define MEMBER(name, symbol, arguments) CUresult(*name) arguments;
	DRIVER_CALLS(MEMBER)
	OPTIONAL_CALLS(MEMBER)
#undef MEMBER
};

extern struct driver driver;

/* Fill `driver`; 0 if the driver lacks one of DRIVER_CALLS. */
int driver_find(void);

#endif
