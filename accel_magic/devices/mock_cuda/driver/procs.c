/* Function lookup by name, used by cudart and most frameworks. */
#define ACCEL_MOCK_CUDA_NAMES
#include "mock_cuda.h"

#include <string.h>

/* All functions, each with the first CUDA version in which its name without suffix refers to it. */
#define FUNCTIONS(EACH) \
	EACH(cuArray3DCreate_v2, 0) \
	EACH(cuArray3DGetDescriptor_v2, 0) \
	EACH(cuArrayCreate_v2, 0) \
	EACH(cuArrayDestroy, 0) \
	EACH(cuArrayGetDescriptor_v2, 0) \
	EACH(cuCtxCreate_v2, 0) \
	EACH(cuCtxCreate_v3, 11040) \
	EACH(cuCtxCreate_v4, 12050) \
	EACH(cuCtxDestroy_v2, 0) \
	EACH(cuCtxEnablePeerAccess, 0) \
	EACH(cuCtxGetApiVersion, 0) \
	EACH(cuCtxGetCacheConfig, 0) \
	EACH(cuCtxGetCurrent, 0) \
	EACH(cuCtxGetDevice, 0) \
	EACH(cuCtxGetDevice_v2, 13000) \
	EACH(cuCtxGetFlags, 0) \
	EACH(cuCtxGetId, 0) \
	EACH(cuCtxGetLimit, 0) \
	EACH(cuCtxGetStreamPriorityRange, 0) \
	EACH(cuCtxPopCurrent_v2, 0) \
	EACH(cuCtxPushCurrent_v2, 0) \
	EACH(cuCtxSetCacheConfig, 0) \
	EACH(cuCtxSetCurrent, 0) \
	EACH(cuCtxSetLimit, 0) \
	EACH(cuCtxSynchronize, 0) \
	EACH(cuCtxSynchronize_v2, 13000) \
	EACH(cuDeviceCanAccessPeer, 0) \
	EACH(cuDeviceComputeCapability, 0) \
	EACH(cuDeviceGet, 0) \
	EACH(cuDeviceGetAttribute, 0) \
	EACH(cuDeviceGetByPCIBusId, 0) \
	EACH(cuDeviceGetCount, 0) \
	EACH(cuDeviceGetDefaultMemPool, 0) \
	EACH(cuDeviceGetMemPool, 0) \
	EACH(cuDeviceGetName, 0) \
	EACH(cuDeviceGetPCIBusId, 0) \
	EACH(cuDeviceGetUuid, 0) \
	EACH(cuDeviceGetUuid_v2, 0) \
	EACH(cuDevicePrimaryCtxGetState, 0) \
	EACH(cuDevicePrimaryCtxRelease_v2, 0) \
	EACH(cuDevicePrimaryCtxReset_v2, 0) \
	EACH(cuDevicePrimaryCtxRetain, 0) \
	EACH(cuDevicePrimaryCtxSetFlags_v2, 0) \
	EACH(cuDeviceSetMemPool, 0) \
	EACH(cuDeviceTotalMem_v2, 0) \
	EACH(cuDriverGetVersion, 0) \
	EACH(cuEventCreate, 0) \
	EACH(cuEventDestroy_v2, 0) \
	EACH(cuEventElapsedTime, 0) \
	EACH(cuEventElapsedTime_v2, 12080) \
	EACH(cuEventQuery, 0) \
	EACH(cuEventRecord, 0) \
	EACH(cuEventRecordWithFlags, 0) \
	EACH(cuEventSynchronize, 0) \
	EACH(cuFuncGetAttribute, 0) \
	EACH(cuFuncGetModule, 0) \
	EACH(cuFuncGetName, 0) \
	EACH(cuFuncGetParamCount, 0) \
	EACH(cuFuncGetParamInfo, 0) \
	EACH(cuFuncIsLoaded, 0) \
	EACH(cuFuncLoad, 0) \
	EACH(cuFuncSetAttribute, 0) \
	EACH(cuFuncSetCacheConfig, 0) \
	EACH(cuGetErrorName, 0) \
	EACH(cuGetErrorString, 0) \
	EACH(cuGetExportTable, 0) \
	EACH(cuGraphDestroy, 0) \
	EACH(cuGraphExecDestroy, 0) \
	EACH(cuGraphGetNodes, 0) \
	EACH(cuGraphInstantiateWithFlags, 0) \
	EACH(cuGraphInstantiateWithParams, 0) \
	EACH(cuGraphLaunch, 0) \
	EACH(cuGraphReleaseUserObject, 0) \
	EACH(cuGraphRetainUserObject, 0) \
	EACH(cuGraphUpload, 0) \
	EACH(cuInit, 0) \
	EACH(cuKernelGetAttribute, 0) \
	EACH(cuKernelGetFunction, 0) \
	EACH(cuKernelGetLibrary, 0) \
	EACH(cuKernelGetName, 0) \
	EACH(cuKernelGetParamCount, 0) \
	EACH(cuKernelGetParamInfo, 0) \
	EACH(cuKernelSetAttribute, 0) \
	EACH(cuKernelSetCacheConfig, 0) \
	EACH(cuLaunchCooperativeKernel, 0) \
	EACH(cuLaunchHostFunc, 0) \
	EACH(cuLaunchKernel, 0) \
	EACH(cuLaunchKernelEx, 0) \
	EACH(cuLibraryEnumerateKernels, 0) \
	EACH(cuLibraryGetGlobal, 0) \
	EACH(cuLibraryGetKernel, 0) \
	EACH(cuLibraryGetKernelCount, 0) \
	EACH(cuLibraryGetManaged, 0) \
	EACH(cuLibraryGetModule, 0) \
	EACH(cuLibraryLoadData, 0) \
	EACH(cuLibraryLoadFromFile, 0) \
	EACH(cuLibraryUnload, 0) \
	EACH(cuMemAdvise, 0) \
	EACH(cuMemAdvise_v2, 12020) \
	EACH(cuMemAllocAsync, 0) \
	EACH(cuMemAllocFromPoolAsync, 0) \
	EACH(cuMemAllocHost_v2, 0) \
	EACH(cuMemAllocManaged, 0) \
	EACH(cuMemAllocPitch_v2, 0) \
	EACH(cuMemAlloc_v2, 0) \
	EACH(cuMemFreeAsync, 0) \
	EACH(cuMemFreeHost, 0) \
	EACH(cuMemFree_v2, 0) \
	EACH(cuMemGetAddressRange_v2, 0) \
	EACH(cuMemGetInfo_v2, 0) \
	EACH(cuMemHostAlloc, 0) \
	EACH(cuMemHostGetDevicePointer_v2, 0) \
	EACH(cuMemHostGetFlags, 0) \
	EACH(cuMemHostRegister_v2, 0) \
	EACH(cuMemHostUnregister, 0) \
	EACH(cuMemPoolCreate, 0) \
	EACH(cuMemPoolDestroy, 0) \
	EACH(cuMemPoolGetAttribute, 0) \
	EACH(cuMemPoolSetAccess, 0) \
	EACH(cuMemPoolSetAttribute, 0) \
	EACH(cuMemPoolTrimTo, 0) \
	EACH(cuMemPrefetchAsync, 0) \
	EACH(cuMemPrefetchAsync_v2, 12020) \
	EACH(cuMemcpy, 0) \
	EACH(cuMemcpy2DAsync_v2, 0) \
	EACH(cuMemcpy2DUnaligned_v2, 0) \
	EACH(cuMemcpy2D_v2, 0) \
	EACH(cuMemcpy3DAsync_v2, 0) \
	EACH(cuMemcpy3D_v2, 0) \
	EACH(cuMemcpyAsync, 0) \
	EACH(cuMemcpyAtoA_v2, 0) \
	EACH(cuMemcpyAtoD_v2, 0) \
	EACH(cuMemcpyAtoHAsync_v2, 0) \
	EACH(cuMemcpyAtoH_v2, 0) \
	EACH(cuMemcpyDtoA_v2, 0) \
	EACH(cuMemcpyDtoDAsync_v2, 0) \
	EACH(cuMemcpyDtoD_v2, 0) \
	EACH(cuMemcpyDtoHAsync_v2, 0) \
	EACH(cuMemcpyDtoH_v2, 0) \
	EACH(cuMemcpyHtoAAsync_v2, 0) \
	EACH(cuMemcpyHtoA_v2, 0) \
	EACH(cuMemcpyHtoDAsync_v2, 0) \
	EACH(cuMemcpyHtoD_v2, 0) \
	EACH(cuMemsetD16Async, 0) \
	EACH(cuMemsetD16_v2, 0) \
	EACH(cuMemsetD2D8Async, 0) \
	EACH(cuMemsetD2D8_v2, 0) \
	EACH(cuMemsetD32Async, 0) \
	EACH(cuMemsetD32_v2, 0) \
	EACH(cuMemsetD8Async, 0) \
	EACH(cuMemsetD8_v2, 0) \
	EACH(cuMipmappedArrayCreate, 0) \
	EACH(cuMipmappedArrayDestroy, 0) \
	EACH(cuMipmappedArrayGetLevel, 0) \
	EACH(cuModuleEnumerateFunctions, 0) \
	EACH(cuModuleGetFunction, 0) \
	EACH(cuModuleGetFunctionCount, 0) \
	EACH(cuModuleGetGlobal_v2, 0) \
	EACH(cuModuleGetLoadingMode, 0) \
	EACH(cuModuleLoad, 0) \
	EACH(cuModuleLoadData, 0) \
	EACH(cuModuleLoadDataEx, 0) \
	EACH(cuModuleLoadFatBinary, 0) \
	EACH(cuModuleUnload, 0) \
	EACH(cuOccupancyAvailableDynamicSMemPerBlock, 0) \
	EACH(cuOccupancyMaxActiveBlocksPerMultiprocessor, 0) \
	EACH(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 0) \
	EACH(cuOccupancyMaxActiveClusters, 0) \
	EACH(cuOccupancyMaxPotentialBlockSize, 0) \
	EACH(cuOccupancyMaxPotentialBlockSizeWithFlags, 0) \
	EACH(cuPointerGetAttribute, 0) \
	EACH(cuPointerGetAttributes, 0) \
	EACH(cuPointerSetAttribute, 0) \
	EACH(cuProfilerStart, 0) \
	EACH(cuProfilerStop, 0) \
	EACH(cuStreamAddCallback, 0) \
	EACH(cuStreamBeginCapture_v2, 0) \
	EACH(cuStreamCreate, 0) \
	EACH(cuStreamCreateWithPriority, 0) \
	EACH(cuStreamDestroy_v2, 0) \
	EACH(cuStreamEndCapture, 0) \
	EACH(cuStreamGetCaptureInfo_v2, 0) \
	EACH(cuStreamGetCaptureInfo_v3, 12030) \
	EACH(cuStreamGetCtx, 0) \
	EACH(cuStreamGetDevice, 0) \
	EACH(cuStreamGetFlags, 0) \
	EACH(cuStreamGetId, 0) \
	EACH(cuStreamGetPriority, 0) \
	EACH(cuStreamIsCapturing, 0) \
	EACH(cuStreamQuery, 0) \
	EACH(cuStreamSynchronize, 0) \
	EACH(cuStreamWaitEvent, 0) \
	EACH(cuSurfObjectCreate, 0) \
	EACH(cuSurfObjectDestroy, 0) \
	EACH(cuSurfObjectGetResourceDesc, 0) \
	EACH(cuTensorMapEncodeIm2col, 0) \
	EACH(cuTensorMapEncodeTiled, 0) \
	EACH(cuTensorMapReplaceAddress, 0) \
	EACH(cuTexObjectCreate, 0) \
	EACH(cuTexObjectDestroy, 0) \
	EACH(cuTexObjectGetResourceDesc, 0) \
	EACH(cuTexObjectGetTextureDesc, 0) \
	EACH(cuThreadExchangeStreamCaptureMode, 0) \
	EACH(cuUserObjectCreate, 0) \
	EACH(cuUserObjectRelease, 0) \
	EACH(cuUserObjectRetain, 0)

#define DECLARE(name, since) extern void name(void);
#define ENTER(name, since) {#name, since, name},

FUNCTIONS(DECLARE)

static const struct {
	const char *name;
	int since;
	void (*function)(void);
} functions[] = {FUNCTIONS(ENTER)};

enum { FOUND, NO_SUCH_FUNCTION };

/* Length of a name without a suffix like `_v2`. */
static size_t base(const char *name)
{
	size_t length = strlen(name);

	return length > 3 && name[length - 3] == '_' && name[length - 2] == 'v' ? length - 3 : length;
}

/* cudart first looks up a function with an empty name. It only works with NVIDIA's own driver. */
static void refuse_cudart(void)
{
	static int reported;

	if (!__atomic_exchange_n(&reported, 1, __ATOMIC_RELAXED))
		locally("programs that use the CUDA runtime (cudart) cannot run here\n"
			"  why: cudart works only with NVIDIA's own driver, and checks for it\n"
			"  fix: use CUDA's driver API (cuLaunchKernel), or run the cell on a GPU: --device cuda");
}

API CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags);

API CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
	size_t length;

	(void)flags;
	*function = NULL;
	if (name && version >= 12000 && !strcmp(name, "cuGraphInstantiate"))
		name = "cuGraphInstantiateWithFlags"; /* as in cuda.h */
	length = name ? strlen(name) : 0;
	if (!length)
		refuse_cudart();
	if (!strcmp(name ? name : "", "cuGetProcAddress"))
		*function = version < 12000 ? (void *)cuGetProcAddress : (void *)cuGetProcAddress_v2;
	/* Of the versions of a function, the newest comes last. */
	for (size_t i = 0; name && i < sizeof(functions) / sizeof(*functions); i++)
		if (base(functions[i].name) == length && !strncmp(functions[i].name, name, length) &&
		    functions[i].since <= version)
			*function = (void *)functions[i].function;
	if (status)
		*status = *function ? FOUND : NO_SUCH_FUNCTION;
	return *function ? SUCCESS : NOT_FOUND;
}

API CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
	return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
