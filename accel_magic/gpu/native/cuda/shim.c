/* Wraps the CUDA driver in a program that a traced cell has started.
 *
 * Loaded with LD_PRELOAD. Programs find the driver by linking against it, with dlopen and dlsym, or with
 * cuGetProcAddress: all three lead here. After any failure the program runs as without this library, and nothing is
 * ever written to its output.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "../common/maps.h"
#include "memory.h"
#include "modules.h"
#include "../common/notebook.h"
#include "wrapped.h"

enum { NOT_FOUND = 500, PER_THREAD_STREAM = 2, FIRST_WITH_STATUS = 12000 };

/* ---- linking: its output is machine code ---- */

static void linked(void)
{
	struct ring *ring = notebook_ring();

	if (ring)
		atomic_fetch_add(&ring->linked, 1);
}

#define LINKING(name, second)                                                                                   \
	SHOWN CUresult name##second(Handle state, int type, void *given, size_t size, const char *as, unsigned count, \
				    int *options, void **values)                                                 \
	{                                                                                                        \
		linked();                                                                                        \
		return REAL(name##second)(state, type, given, size, as, count, options, values);                 \
	}
#define LINKING_FILE(name, second)                                                                              \
	SHOWN CUresult name##second(Handle state, int type, const char *path, unsigned count, int *options,      \
				    void **values)                                                               \
	{                                                                                                        \
		linked();                                                                                        \
		return REAL(name##second)(state, type, path, count, options, values);                            \
	}

LINKING(cuLinkAddData, )
LINKING(cuLinkAddData, _v2)
LINKING_FILE(cuLinkAddFile, )
LINKING_FILE(cuLinkAddFile, _v2)

/* ---- names ---- */

SHOWN CUresult cuModuleGetFunction(Handle *function, Handle module, const char *name)
{
	CUresult error = REAL(cuModuleGetFunction)(function, module, name);

	if (!error)
		modules_function(*function, module, name);
	return error;
}

SHOWN CUresult cuLibraryGetKernel(Handle *kernel, Handle library, const char *name)
{
	CUresult error = REAL(cuLibraryGetKernel)(kernel, library, name);

	if (!error)
		modules_function(*kernel, library, name);
	return error;
}

SHOWN CUresult cuLibraryEnumerateKernels(Handle *kernels, unsigned count, Handle library)
{
	CUresult error = REAL(cuLibraryEnumerateKernels)(kernels, count, library);
	const char *name;

	for (unsigned i = 0; !error && notebook_ring() && driver.kernel_name && i < count; i++)
		if (kernels[i] && !driver.kernel_name(&name, kernels[i]))
			modules_function(kernels[i], library, name);
	return error;
}

SHOWN CUresult cuLibraryGetModule(Handle *module, Handle library)
{
	CUresult error = REAL(cuLibraryGetModule)(module, library);

	if (!error)
		modules_of_library(*module, library);
	return error;
}

SHOWN CUresult cuKernelGetFunction(Handle *function, Handle kernel)
{
	CUresult error = REAL(cuKernelGetFunction)(function, modules_usable_kernel(kernel));

	if (!error)
		modules_same(*function, kernel);
	return error;
}

SHOWN CUresult cuLibraryGetGlobal(Address *address, size_t *size, Handle library, const char *name)
{
	return REAL(cuLibraryGetGlobal)(address, size, modules_usable_library(library), name);
}

SHOWN CUresult cuLibraryGetManaged(Address *address, size_t *size, Handle library, const char *name)
{
	return REAL(cuLibraryGetManaged)(address, size, modules_usable_library(library), name);
}

/* ---- the end of the maps' context ---- */

#define DESTROYING(name)                                    \
	SHOWN CUresult name(Handle context)                  \
	{                                                    \
		if (context && context == memory_context()) \
			maps_end(1);                     \
		return REAL(name)(context);                  \
	}
#define RESETTING(name)                                                                \
	SHOWN CUresult name(int device)                                                 \
	{                                                                               \
		Handle primary;                                                         \
                                                                                        \
		if (memory_context() && !driver.primary_retain(&primary, device) &&   \
		    primary == memory_context())                                      \
			maps_end(1);                                                \
		return REAL(name)(device);                                              \
	}

DESTROYING(cuCtxDestroy)
DESTROYING(cuCtxDestroy_v2)
RESETTING(cuDevicePrimaryCtxReset)
RESETTING(cuDevicePrimaryCtxReset_v2)

/* ---- handing out the wrappers ---- */

SHOWN CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags);
SHOWN CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status);

/* Addresses of the wrappers; their types do not matter here. */
#define DECLARE(name) extern char mine_##name[] __asm__(#name);
WRAPPED(DECLARE)
#undef DECLARE

static CUresult missing(void)
{
	return NOT_FOUND;
}

struct wrapper preload_wrappers[WRAPPERS] = {
#define NAMED(name) {#name, mine_##name, NULL},
    WRAPPED(NAMED)
#undef NAMED
};
const int preload_count = WRAPPERS;
const char preload_library[] = "libcuda.so.1";
const char preload_owner[] = "a CUDA driver";
const char preload_prefix[] = "cu";
void *const preload_missing = (void *)missing;

static int place_of_entry(const char *symbol, int version, uint64_t flags)
{
	char name[64];
	int at = -1;

	if (!strcmp(symbol, "cuGetProcAddress"))
		return version >= FIRST_WITH_STATUS ? AT_cuGetProcAddress_v2 : AT_cuGetProcAddress;
	if (flags & PER_THREAD_STREAM) {
		snprintf(name, sizeof name, "%s_ptsz", symbol);
		at = preload_place(name);
	}
	return at >= 0 ? at : preload_place(symbol);
}

static void exchange(const char *symbol, void **function, int version, uint64_t flags)
{
	int at = function && *function ? place_of_entry(symbol, version, flags) : -1;

	if (at >= 0 && *function != preload_wrappers[at].mine) {
		atomic_store(&preload_wrappers[at].real, *function);
		*function = preload_wrappers[at].mine;
	}
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags)
{
	CUresult error = REAL(cuGetProcAddress)(symbol, function, version, flags);

	if (!error)
		exchange(symbol, function, version, flags);
	return error;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status)
{
	CUresult error = REAL(cuGetProcAddress_v2)(symbol, function, version, flags, status);

	if (!error)
		exchange(symbol, function, version, flags);
	return error;
}
