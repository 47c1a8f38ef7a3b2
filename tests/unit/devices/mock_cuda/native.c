// A typical program that uses CUDA's driver API: doubles 1000 numbers with the kernel in the given PTX file.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuInit(unsigned int), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuCtxSynchronize(void);
int cuModuleLoad(void **, const char *), cuModuleGetFunction(void **, void *, const char *);
int cuMemAlloc_v2(uint64_t *, size_t), cuMemcpyHtoD_v2(uint64_t, const void *, size_t);
int cuMemcpyDtoH_v2(void *, uint64_t, size_t);
int cuLaunchKernel(void *, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
		   unsigned int, void *, void **, void **);

#define OK(call) \
	do { \
		int result = call; \
		if (result) { \
			printf("%s: %d\n", #call, result); \
			return 1; \
		} \
	} while (0)

int main(int count, char **arguments)
{
	void *context, *module, *function;
	unsigned int n = 1000, numbers[1000];
	uint64_t data;
	void *parameters[] = {&data, &n};

	for (unsigned int i = 0; i < n; i++)
		numbers[i] = i;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoad(&module, arguments[1]));
	OK(cuModuleGetFunction(&function, module, "twice"));
	OK(cuMemAlloc_v2(&data, sizeof(numbers)));
	OK(cuMemcpyHtoD_v2(data, numbers, sizeof(numbers)));
	OK(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, NULL, parameters, NULL));
	OK(cuMemcpyDtoH_v2(numbers, data, sizeof(numbers)));
	for (unsigned int i = 0; i < n; i++)
		if (numbers[i] != 2 * i)
			return 2;
	puts("doubled");
	if (count > 2 && !strcmp(arguments[2], "abort"))
		abort();
	return 0;
}
