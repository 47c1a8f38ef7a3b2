/* Launches from several threads at once, each with its own module: threads IMAGE THREADS LAUNCHES. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int CUresult;
typedef void *Handle;
typedef uint64_t Address;

static CUresult (*init)(unsigned), (*create)(Handle *, unsigned, int), (*current)(Handle), (*alloc)(Address *, size_t),
    (*load)(Handle *, const void *), (*function)(Handle *, Handle, const char *), (*wait_)(void),
    (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **, void **);
static Handle context;
static char image[1 << 20];
static int launches;
static atomic_int done;

static void *work(void *unused)
{
	int n = 32, value = 1;
	Handle module, kernel;
	Address out;
	void *arguments[] = {&out, &n, &value};

	current(context);
	if (load(&module, image) || function(&kernel, module, "fill") || alloc(&out, n * sizeof n))
		exit(1);
	for (int i = 0; i < launches; i++)
		if (!launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL))
			atomic_fetch_add(&done, 1);
	return NULL;
}

int main(int count, char **given)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	FILE *file = fopen(given[1], "rb");
	int threads = atoi(given[2]);
	pthread_t all[64];

	fread(image, 1, sizeof image - 1, file);
	launches = atoi(given[3]);
	init = dlsym(driver, "cuInit");
	create = dlsym(driver, "cuCtxCreate_v2");
	current = dlsym(driver, "cuCtxSetCurrent");
	alloc = dlsym(driver, "cuMemAlloc_v2");
	load = dlsym(driver, "cuModuleLoadData");
	function = dlsym(driver, "cuModuleGetFunction");
	wait_ = dlsym(driver, "cuCtxSynchronize");
	launch = dlsym(driver, "cuLaunchKernel");
	if (init(0) || create(&context, 0, 0))
		return 2;
	for (int i = 0; i < threads; i++)
		pthread_create(&all[i], NULL, work, NULL);
	for (int i = 0; i < threads; i++)
		pthread_join(all[i], NULL);
	wait_();
	printf("%d\n", done);
	return 0;
}
