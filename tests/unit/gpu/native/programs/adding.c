/* Adds vectors on a GPU through the driver, and prints the result.
 *
 * Usage: adding HOW IMAGE LAUNCHES THREADS [END]
 * HOW: linked, dlsym, entry (cuGetProcAddress), or library (cuLibraryLoadData, and launches of CUkernels).
 * IMAGE: a file with PTX, a cubin or a fatbin.
 * END: exit (default), leave (_exit), kill (SIGKILL itself after a second), wait (for a line on its input),
 *      again (wait, and add again), modules (the same in another module, and print the status first),
 *      reset (destroy the context, and add again in another one), both (launch another kernel before each).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
typedef void *Handle;
typedef uint64_t Address;

#define CALLS(X)                                                                                   \
	X(cuInit, cuInit, (unsigned))                                                              \
	X(cuDeviceGet, cuDeviceGet, (int *, int))                                                  \
	X(cuCtxCreate, cuCtxCreate_v2, (Handle *, unsigned, int))                                  \
	X(cuCtxDestroy, cuCtxDestroy_v2, (Handle))                                                 \
	X(cuMemAlloc, cuMemAlloc_v2, (Address *, size_t))                                          \
	X(cuMemcpyHtoD, cuMemcpyHtoD_v2, (Address, const void *, size_t))                          \
	X(cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *, Address, size_t))                                \
	X(cuModuleLoadData, cuModuleLoadData, (Handle *, const void *))                            \
	X(cuModuleGetFunction, cuModuleGetFunction, (Handle *, Handle, const char *))              \
	X(cuLibraryLoadData, cuLibraryLoadData,                                                    \
	  (Handle *, const void *, int *, void **, unsigned, int *, void **, unsigned))            \
	X(cuLibraryGetKernel, cuLibraryGetKernel, (Handle *, Handle, const char *))                \
	X(cuLaunchKernel, cuLaunchKernel,                                                          \
	  (Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **, void **))

#ifdef LINKED
#define DECLARE(name, symbol, arguments)    \
	extern CUresult symbol arguments;    \
	static CUresult(*name##_) arguments = symbol;
#else
#define DECLARE(name, symbol, arguments) static CUresult(*name##_) arguments;
#endif
CALLS(DECLARE)

static void check(CUresult error, const char *what)
{
	if (error) {
		printf("%s: error %d\n", what, error);
		exit(3);
	}
}

/* Later versions of this function have other arguments. */
static int version_of(const char *name)
{
	return strcmp(name, "cuCtxCreate") ? 12000 : 11000;
}

static void find(const char *how)
{
#ifdef LINKED
	(void)how;
#else
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult (*entry)(const char *, void **, int, uint64_t, int *) =
	    (CUresult(*)(const char *, void **, int, uint64_t, int *))dlsym(driver, "cuGetProcAddress_v2");
	int status;

	if (!driver)
		exit(4);
	(void)entry;
#define FIND(name, symbol, arguments)                                                              \
	if (!strcmp(how, "entry"))                                                                 \
		check(entry(#name, (void **)&name##_, version_of(#name), 0, &status), #name); \
	else                                                                                       \
		name##_ = (CUresult(*) arguments)dlsym(driver, #symbol);
	CALLS(FIND)
#endif
}

static char *read_all(const char *path)
{
	FILE *file = fopen(path, "rb");
	char *data = calloc(1, 1 << 20);

	if (!file || !fread(data, 1, (1 << 20) - 1, file))
		exit(5);
	fclose(file);
	return data;
}

static Handle kernel_of(const char *how, const char *image, const char *name)
{
	Handle module, kernel;

	if (!strcmp(how, "library")) {
		check(cuLibraryLoadData_(&module, image, 0, 0, 0, 0, 0, 0), "load");
		check(cuLibraryGetKernel_(&kernel, module, name), "kernel");
	} else {
		check(cuModuleLoadData_(&module, image), "load");
		check(cuModuleGetFunction_(&kernel, module, name), "kernel");
	}
	return kernel;
}

static Handle before; /* another kernel, launched before each launch */

static void add(Handle kernel, int launches, int threads)
{
	int *a = malloc(threads * sizeof *a), *b = malloc(threads * sizeof *b), *out = calloc(threads, sizeof *out);
	Address on[3];
	long sum = 0;

	for (int i = 0; i < threads; i++) {
		a[i] = i;
		b[i] = 7 * i + 1;
	}
	for (int i = 0; i < 3; i++)
		check(cuMemAlloc_(&on[i], threads * sizeof *a), "alloc");
	check(cuMemcpyHtoD_(on[0], a, threads * sizeof *a), "copy");
	check(cuMemcpyHtoD_(on[1], b, threads * sizeof *b), "copy");
	for (int i = 0; i < launches; i++) {
		void *arguments[] = {&on[0], &on[1], &on[2], &threads}, *filled[] = {&on[2], &threads, &i};

		if (before)
			check(cuLaunchKernel_(before, 1, 1, 1, 32, 1, 1, 0, NULL, filled, NULL), "launch");
		check(cuLaunchKernel_(kernel, (threads + 63) / 64, 1, 1, 64, 1, 1, 0, NULL, arguments, NULL), "launch");
	}
	check(cuMemcpyDtoH_(out, on[2], threads * sizeof *out), "copy");
	for (int i = 0; i < threads; i++)
		sum += out[i];
	printf("%ld\n", sum);
	fflush(stdout);
}

int main(int count, char **given)
{
	const char *how = given[1], *end = count > 5 ? given[5] : "exit";
	int launches = atoi(given[3]), threads = atoi(given[4]), device;
	char *image = read_all(given[2]);
	Handle context, kernel;

	find(how);
	check(cuInit_(0), "init");
	check(cuDeviceGet_(&device, 0), "device");
	check(cuCtxCreate_(&context, 0, device), "context");
	kernel = kernel_of(how, image, "add");
	if (!strcmp(end, "both"))
		before = kernel_of(how, image, "fill");
	add(kernel, launches, threads);
	if (!strcmp(end, "reset")) {
		check(cuCtxDestroy_(context), "destroy");
		check(cuCtxCreate_(&context, 0, device), "context");
		add(strcmp(how, "library") ? kernel_of(how, image, "add") : kernel, launches, threads);
	}
	if (!strcmp(end, "leave"))
		_exit(6);
	if (!strcmp(end, "kill")) {
		sleep(1);
		kill(getpid(), SIGKILL);
	}
	if (!strcmp(end, "wait") || !strcmp(end, "again") || !strcmp(end, "modules"))
		getchar();
	if (!strcmp(end, "modules"))
		kernel = kernel_of(how, image, "add");
	if (!strcmp(end, "again") || !strcmp(end, "modules"))
		add(kernel, launches, threads);
	if (!strcmp(end, "modules"))
		puts("7");
	return 7;
}
