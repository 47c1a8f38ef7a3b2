// SPDX-License-Identifier: Apache-2.0
// A program that uses only CUDA's driver API: native PTX GX GY GZ BX BY BZ N LAUNCHES INPUT OUTPUT
// It loads the kernel `work`, launches it, and writes the output of the last launch to a file.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned long long address;

static void *driver;

static void *find(const char *name)
{
	void *found = dlsym(driver, name);
	if (!found) {
		fprintf(stderr, "the driver has no %s\n", name);
		exit(2);
	}
	return found;
}

static void check(int code, const char *what)
{
	if (code) {
		fprintf(stderr, "%s: error %d\n", what, code);
		exit(3);
	}
}

#define CALL(name, ...) check(((int (*)())find(#name))(__VA_ARGS__), #name)

static void *whole(const char *path, size_t size)
{
	FILE *file = fopen(path, "rb");
	char *data = calloc(1, size + 1);
	if (!file || !fread(data, 1, size, file)) {
		perror(path);
		exit(4);
	}
	fclose(file);
	return data;
}

int main(int count, char **words)
{
	unsigned size[6];
	int n, launches, device;
	void *context, *module, *kernel;
	address in, out;

	if (count != 12)
		return 1;
	for (int i = 0; i < 6; i++)
		size[i] = atoi(words[2 + i]);
	n = atoi(words[8]);
	launches = atoi(words[9]);
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	int *numbers = whole(words[10], n * sizeof(int));
	CALL(cuInit, 0);
	CALL(cuDeviceGet, &device, 0);
	CALL(cuDevicePrimaryCtxRetain, &context, device);
	CALL(cuCtxSetCurrent, context);
	CALL(cuModuleLoadData, &module, whole(words[1], 1 << 20));
	CALL(cuModuleGetFunction, &kernel, module, "work");
	CALL(cuMemAlloc_v2, &in, n * sizeof(int));
	CALL(cuMemAlloc_v2, &out, n * sizeof(int));
	CALL(cuMemcpyHtoD_v2, in, numbers, n * sizeof(int));
	for (int i = 0; i < launches; i++) {
		void *arguments[] = {&in, &out, &n};
		CALL(cuLaunchKernel, kernel, size[0], size[1], size[2], size[3], size[4], size[5], 0, NULL, arguments, NULL);
	}
	CALL(cuCtxSynchronize, );
	CALL(cuMemcpyDtoH_v2, numbers, out, n * sizeof(int));
	FILE *file = fopen(words[11], "wb");
	if (!file || fwrite(numbers, sizeof(int), n, file) != (size_t)n || fclose(file))
		return 5;
	CALL(cuModuleUnload, module);
	CALL(cuDevicePrimaryCtxRelease_v2, device);
	return 0;
}
