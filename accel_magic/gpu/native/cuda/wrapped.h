/* The driver's functions that are wrapped here, and access to the original ones. */
#ifndef ACCEL_WRAPPED_H
#define ACCEL_WRAPPED_H

#include "../preload/preload.h"
#include "driver.h"

/* _ptsz: variants for the default stream of each thread. */
#define WRAPPED(X)                         \
	X(cuGetProcAddress)                \
	X(cuGetProcAddress_v2)             \
	X(cuModuleLoad)                    \
	X(cuModuleLoadData)                \
	X(cuModuleLoadDataEx)              \
	X(cuModuleLoadFatBinary)           \
	X(cuModuleGetFunction)             \
	X(cuLibraryLoadData)               \
	X(cuLibraryLoadFromFile)           \
	X(cuLibraryGetKernel)              \
	X(cuLibraryEnumerateKernels)       \
	X(cuLibraryGetModule)              \
	X(cuLibraryGetGlobal)              \
	X(cuLibraryGetManaged)             \
	X(cuKernelGetFunction)             \
	X(cuLinkAddData)                   \
	X(cuLinkAddData_v2)                \
	X(cuLinkAddFile)                   \
	X(cuLinkAddFile_v2)                \
	X(cuLaunchKernel)                  \
	X(cuLaunchKernel_ptsz)             \
	X(cuLaunchKernelEx)                \
	X(cuLaunchKernelEx_ptsz)           \
	X(cuLaunchCooperativeKernel)       \
	X(cuLaunchCooperativeKernel_ptsz)  \
	X(cuGraphLaunch)                   \
	X(cuGraphLaunch_ptsz)              \
	X(cuStreamBeginCapture)            \
	X(cuStreamBeginCapture_ptsz)       \
	X(cuStreamBeginCapture_v2)         \
	X(cuStreamBeginCapture_v2_ptsz)    \
	X(cuStreamBeginCaptureToGraph)     \
	X(cuStreamBeginCaptureToGraph_ptsz) \
	X(cuCtxDestroy)                    \
	X(cuCtxDestroy_v2)                 \
	X(cuDevicePrimaryCtxReset)         \
	X(cuDevicePrimaryCtxReset_v2)

#define PLACE(name) AT_##name,
enum { WRAPPED(PLACE) WRAPPERS };
#undef PLACE

#define REAL(name) ((__typeof__(&name))preload_real(AT_##name))

#endif
