/* A mock CUDA driver that computes nothing and logs the modules that it is asked to load.
 *
 * Environment: BOOKS: a file that gets a line for each module: "KIND SIZE ERROR"; kinds are ptx (the program's own),
 * traced (with programs in it), elf. REFUSALS: how many traced modules are rejected, after the first SPARED,
 * with the error REFUSAL;
 * NO_REGISTER: host memory cannot be registered; NO_MEMORY: allocations fail; DEVICES: number of devices.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef void *Handle;
typedef uint64_t Address;

static Handle current;
static int stream, made_contexts, made_modules;
static char contexts[16], modules[256]; /* the address of each byte is a handle; a module's function is the next byte */
static Handle of_stream;

static int number(const char *name, int otherwise)
{
	const char *value = getenv(name);

	return value ? atoi(value) : otherwise;
}

static void write_down(const char *kind, size_t size, int error)
{
	FILE *books = fopen(getenv("BOOKS"), "a");

	fprintf(books, "%s %d %d\n", kind, size > 0, error);
	fclose(books);
}

CUresult cuInit(unsigned flags) { return 0; }
CUresult cuDriverGetVersion(int *version) { return *version = 13000, 0; }
CUresult cuDeviceGetCount(int *count) { return *count = number("DEVICES", 1), 0; }
CUresult cuDeviceGet(int *device, int at) { return *device = at, 0; }
CUresult cuDeviceGetAttribute(int *value, int what, int device) { return *value = what == 75 ? 8 : 0, 0; }
CUresult cuCtxCreate_v2(Handle *made, unsigned flags, int device) { return *made = current = &contexts[made_contexts++], 0; }
CUresult cuCtxDestroy_v2(Handle gone) { return current = NULL, 0; }
CUresult cuDevicePrimaryCtxRetain(Handle *made, int device) { return *made = &contexts[0], 0; }
CUresult cuCtxGetCurrent(Handle *got) { return *got = current, 0; }
CUresult cuCtxGetDevice(int *device) { return *device = 0, 0; }
CUresult cuCtxPushCurrent_v2(Handle pushed) { return 0; }
CUresult cuCtxPopCurrent_v2(Handle *popped) { return 0; }
CUresult cuMemAlloc_v2(Address *made, size_t size)
{
	if (getenv("NO_MEMORY"))
		return 2;
	*made = (Address)aligned_alloc(256, (size + 255) / 256 * 256);
	memset((void *)*made, 0, size);
	return 0;
}
CUresult cuMemFree_v2(Address gone) { return free((void *)gone), 0; }
CUresult cuMemHostAlloc(void **made, size_t size, unsigned flags)
{
	return cuMemAlloc_v2((Address *)made, size);
}
CUresult cuMemFreeHost(void *gone) { return free(gone), 0; }
CUresult cuMemHostRegister_v2(void *memory, size_t size, unsigned flags) { return getenv("NO_REGISTER") ? 801 : 0; }
CUresult cuMemHostUnregister(void *memory) { return 0; }
CUresult cuMemHostGetDevicePointer_v2(Address *address, void *memory, unsigned flags)
{
	return *address = (Address)memory, 0;
}
CUresult cuMemcpyHtoD_v2(Address to, const void *from, size_t size) { return memcpy((void *)to, from, size), 0; }
CUresult cuMemcpyDtoH_v2(void *to, Address from, size_t size) { return memcpy(to, (void *)from, size), 0; }
CUresult cuMemcpyDtoHAsync_v2(void *to, Address from, size_t size, Handle in) { return cuMemcpyDtoH_v2(to, from, size); }
CUresult cuStreamCreate(Handle *made, unsigned flags) { return *made = &stream, 0; }
CUresult cuStreamSynchronize(Handle of) { return 0; }

static CUresult load(Handle *made, const char *image)
{
	static int refused, taken;
	int elf = !memcmp(image, "\177ELF", 4), traced = !elf && strstr(image, "activemask") != NULL;
	int after = taken >= number("SPARED", 0);
	int error = after && (elf || traced) && refused < number("REFUSALS", 0) ? number("REFUSAL", 0) : 0;

	refused += error != 0;
	taken += !error;
	write_down(elf ? "elf" : traced ? "traced" : "ptx", 1, error);
	*made = &modules[2 * made_modules++];
	return error;
}

CUresult cuModuleLoadData(Handle *made, const void *image) { return load(made, image); }
CUresult cuModuleLoadDataEx(Handle *made, const void *image, unsigned count, int *options, void **values)
{
	/* Like a driver, return the number of bytes written as the size of the log. */
	CUresult error = load(made, image);

	if (count)
		values[0] = (void *)(uintptr_t)((uintptr_t)values[0] / 2);
	return error;
}
CUresult cuModuleGetFunction(Handle *made, Handle of, const char *name) { return *made = (char *)of + 1, 0; }
CUresult cuLibraryLoadData(Handle *made, const void *image, int *a, void **b, unsigned c, int *d, void **e, unsigned f)
{
	return load(made, image);
}
CUresult cuLibraryGetKernel(Handle *made, Handle of, const char *name) { return *made = (char *)of + 1, 0; }
CUresult cuLaunchKernel(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			unsigned shared, Handle in, void **arguments, void **more)
{
	return gx == 4711 ? 1 : 0;
}
CUresult cuLaunchKernelEx(const void *config, Handle f, void **arguments, void **more) { return 0; }
CUresult cuLaunchKernel_ptsz(Handle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
			     unsigned shared, Handle in, void **arguments, void **more)
{
	return 0;
}
CUresult cuGraphLaunch(Handle graph, Handle in) { return 0; }
CUresult cuStreamBeginCapture_v2(Handle in, int mode) { return of_stream = in, 0; }
CUresult cuStreamEndCapture(Handle in, Handle *graph) { return of_stream = NULL, 0; }
CUresult cuStreamIsCapturing(Handle in, int *status) { return *status = of_stream && in == of_stream, 0; }
CUresult cuThreadExchangeStreamCaptureMode(int *mode) { return *mode = 0, 0; }
CUresult cuLinkAddData_v2(Handle state, int type, void *data, size_t size, const char *name, unsigned count, int *options,
			  void **values)
{
	return 0;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **found, int version, uint64_t flags, int *status)
{
	*found = !strcmp(symbol, "cuLaunchKernel") ? flags & 2 ? (void *)cuLaunchKernel_ptsz : (void *)cuLaunchKernel
	       : !strcmp(symbol, "cuGraphLaunch")	 ? (void *)cuGraphLaunch
	       : !strcmp(symbol, "cuLaunchKernelEx")	 ? (void *)cuLaunchKernelEx
							 : NULL;
	return *found ? 0 : 500;
}
