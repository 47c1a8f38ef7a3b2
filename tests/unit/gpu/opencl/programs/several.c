/* A native OpenCL program that uses calls which `adding` does not: all kernels at once, threads, values that SPIR-V leaves
 * open, shared virtual memory, what kernels say of their arguments.
 *
 * several LOADER KERNELS THREADS LAUNCHES. Prints wrong elements, the first argument's name, and the references of a kernel.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 256, MOST = 16, FINE_GRAIN = 1 << 10, POINTERS = 0x11B6, NAME = 0x1190, REFERENCES = 0x1192, OF_ARGUMENT = 0x119A };

static void *loader, *context, *device, *program;
static int launches;

#define CALL(result, name, ...) ((result (*)())dlsym(loader, #name))(__VA_ARGS__)

static void *work(void *unused)
{
	int error, wrong = 0;
	unsigned many = ITEMS;
	size_t items = ITEMS, group = 16;
	void *queue = CALL(void *, clCreateCommandQueue, context, device, 0l, &error);
	void *kernel = CALL(void *, clCreateKernel, program, "add", &error);
	float *a = CALL(void *, clSVMAlloc, context, (long)FINE_GRAIN | 1, sizeof(float) * ITEMS, 0);
	float *c = CALL(void *, clSVMAlloc, context, (long)FINE_GRAIN | 1, sizeof(float) * ITEMS, 0);
	void *pointers[] = {a, c};

	for (int i = 0; i < ITEMS; i++)
		a[i] = i;
	CALL(int, clSetKernelArgSVMPointer, kernel, 0, a);
	CALL(int, clSetKernelArgSVMPointer, kernel, 1, a);
	CALL(int, clSetKernelArgSVMPointer, kernel, 2, c);
	CALL(int, clSetKernelArg, kernel, 3, sizeof many, &many);
	if (CALL(int, clSetKernelExecInfo, kernel, POINTERS, sizeof pointers, pointers))
		wrong++;
	for (int i = 0; i < launches; i++)
		wrong += CALL(int, clEnqueueNDRangeKernel, queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL) != 0;
	CALL(int, clFinish, queue);
	for (int i = 0; i < ITEMS; i++)
		wrong += c[i] != 2 * i;
	CALL(int, clReleaseKernel, kernel);
	CALL(int, clReleaseCommandQueue, queue);
	return (void *)(long)wrong;
}

int main(int count, char **words)
{
	static char data[1 << 20];
	FILE *file = fopen(words[2], "rb");
	size_t size = fread(data, 1, sizeof data, file), named = 0;
	const char *texts[] = {data};
	void *platform, *kernels[MOST], *threads[MOST], *wrong;
	int error, all = 0, number = atoi(words[3]);
	unsigned found = 0, references = 0;
	char name[64] = "", argument[64] = "";

	launches = atoi(words[4]);
	loader = dlopen(words[1], RTLD_NOW);
	CALL(int, clGetPlatformIDs, 1, &platform, NULL);
	CALL(int, clGetDeviceIDs, platform, -1l, 1, &device, NULL);
	context = CALL(void *, clCreateContext, NULL, 1, &device, NULL, NULL, &error);
	program = CALL(void *, clCreateProgramWithSource, context, 1, texts, &size, &error);
	if (CALL(int, clBuildProgram, program, 0, NULL, "-cl-kernel-arg-info -cl-fast-relaxed-math", NULL, NULL))
		return 3;
	CALL(int, clCreateKernelsInProgram, program, MOST, kernels, &found);
	for (unsigned i = 0; i < found; i++) {
		CALL(int, clGetKernelInfo, kernels[i], NAME, sizeof name, name, NULL);
		CALL(int, clRetainKernel, kernels[i]);
		CALL(int, clReleaseKernel, kernels[i]);
		if (!strcmp(name, "add")) {
			CALL(int, clGetKernelArgInfo, kernels[i], 3, OF_ARGUMENT, sizeof argument, argument, &named);
			CALL(int, clGetKernelInfo, kernels[i], REFERENCES, sizeof references, &references, NULL);
		}
		CALL(int, clReleaseKernel, kernels[i]);
	}
	for (int i = 0; i < number; i++)
		pthread_create((pthread_t *)&threads[i], NULL, work, NULL);
	for (int i = 0; i < number; i++) {
		pthread_join((pthread_t)threads[i], &wrong);
		all += (long)wrong;
	}
	/* Built again, with other options, and used. */
	CALL(int, clBuildProgram, program, 1, &device, "-cl-opt-disable", NULL, NULL);
	all += (long)work(NULL);
	printf("%d %u %s %u\n", all, found, argument, references);
	CALL(int, clReleaseProgram, program);
	CALL(int, clReleaseContext, context);
	return 0;
}
