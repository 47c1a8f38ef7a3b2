/* A native OpenCL program that knows nothing of a trace: adds arrays, and checks the sums.
 *
 * adding LOADER KERNELS HOW LAUNCHES: the loader's path; a file of OpenCL C, SPIR-V or a binary; `source`, `il`, `il-khr`,
 * `linked`, `binary` or `again` (from source, and then from the binary of that); how often.
 * Prints the wrong elements, and what its kernel says of itself. With a fifth argument it waits for a line afterwards.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 256, GROUP = 16, ALL = -1, COPY = 1 << 5, READ_WRITE = 1 };
enum { KERNEL_NAME = 0x1190, ARGUMENTS = 0x1191, KERNEL_PROGRAM = 0x1194, BINARY_SIZES = 0x1165, BINARIES = 0x1166 };

static void *loader;

#define CALL(result, name, ...) ((result (*)())dlsym(loader, #name))(__VA_ARGS__)

static size_t read_file(const char *path, char *data, size_t room)
{
	FILE *file = fopen(path, "rb");
	size_t size = fread(data, 1, room, file);

	fclose(file);
	return size;
}

static void *created(void *context, void *device, void *platform, const char *how, const char *data, size_t size)
{
	const char *texts[] = {data};
	size_t sizes[] = {size};
	void *program, *part, *(*with_il)(void *, const void *, size_t, int *);
	int error, status;

	if (!strcmp(how, "source") || !strcmp(how, "again"))
		return CALL(void *, clCreateProgramWithSource, context, 1, texts, sizes, &error);
	if (!strcmp(how, "il"))
		return CALL(void *, clCreateProgramWithIL, context, data, size, &error);
	if (!strcmp(how, "il-khr")) {
		with_il = CALL(void *, clGetExtensionFunctionAddressForPlatform, platform, "clCreateProgramWithILKHR");
		return with_il ? with_il(context, data, size, &error) : NULL;
	}
	if (!strcmp(how, "binary"))
		return CALL(void *, clCreateProgramWithBinary, context, 1, &device, sizes, texts, &status, &error);
	part = CALL(void *, clCreateProgramWithSource, context, 1, texts, sizes, &error);
	CALL(int, clCompileProgram, part, 1, &device, "", 0, NULL, NULL, NULL, NULL);
	return CALL(void *, clLinkProgram, context, 1, &device, "", 1, &part, NULL, NULL, &error);
}

static unsigned char *binary_of(void *program, size_t *size)
{
	unsigned char *binary;

	CALL(int, clGetProgramInfo, program, BINARY_SIZES, sizeof *size, size, NULL);
	binary = malloc(*size);
	CALL(int, clGetProgramInfo, program, BINARIES, sizeof binary, &binary, NULL);
	return binary;
}

static void save_binary(void *program, const char *path)
{
	size_t size;
	unsigned char *binary = binary_of(program, &size);
	FILE *file = fopen(path, "wb");

	fwrite(binary, 1, size, file);
	fclose(file);
}

int main(int count, char **words)
{
	static char data[1 << 20];
	static float a[ITEMS], c[ITEMS];
	int error, launches = atoi(words[4]), wrong = 0;
	size_t size = read_file(words[2], data, sizeof data), items = ITEMS, group = GROUP;
	void *platform, *device, *context, *queue, *program, *kernel, *from, *to, *of, *clone;
	unsigned many = ITEMS, arguments;
	char name[64], line[8];

	loader = dlopen(words[1], RTLD_NOW);
	CALL(int, clGetPlatformIDs, 1, &platform, NULL);
	CALL(int, clGetDeviceIDs, platform, (long)ALL, 1, &device, NULL);
	context = CALL(void *, clCreateContext, NULL, 1, &device, NULL, NULL, &error);
	queue = CALL(void *, clCreateCommandQueue, context, device, 0l, &error);
	program = created(context, device, platform, words[3], data, size);
	if (!program)
		return 2;
	if (strcmp(words[3], "linked") && CALL(int, clBuildProgram, program, 1, &device, "-w", NULL, NULL))
		return 3;
	if (!strcmp(words[3], "again")) {
		const char *binary = (const char *)binary_of(program, &size);

		CALL(int, clReleaseProgram, program);
		program = created(context, device, platform, "binary", binary, size);
		if (CALL(int, clBuildProgram, program, 1, &device, NULL, NULL, NULL))
			return 6;
	}
	if (launches < 0) {
		save_binary(program, words[5]);
		return 0;
	}
	for (int i = 0; i < ITEMS; i++)
		a[i] = i;
	from = CALL(void *, clCreateBuffer, context, (long)COPY, sizeof a, a, &error);
	to = CALL(void *, clCreateBuffer, context, (long)READ_WRITE, sizeof c, NULL, &error);
	kernel = CALL(void *, clCreateKernel, program, "add", &error);
	CALL(int, clSetKernelArg, kernel, 0, sizeof from, &from);
	CALL(int, clSetKernelArg, kernel, 1, sizeof from, &from);
	CALL(int, clSetKernelArg, kernel, 2, sizeof to, &to);
	CALL(int, clSetKernelArg, kernel, 3, sizeof many, &many);
	CALL(int, clGetKernelInfo, kernel, KERNEL_NAME, sizeof name, name, NULL);
	CALL(int, clGetKernelInfo, kernel, ARGUMENTS, sizeof arguments, &arguments, NULL);
	CALL(int, clGetKernelInfo, kernel, KERNEL_PROGRAM, sizeof of, &of, NULL);
	for (int i = 0; i < launches; i++)
		if (CALL(int, clEnqueueNDRangeKernel, queue, kernel, 1, NULL, &items, i % 2 ? NULL : &group, 0, NULL, NULL))
			return 4;
	clone = CALL(void *, clCloneKernel, kernel, &error);
	if (clone && CALL(int, clEnqueueNDRangeKernel, queue, clone, 1, NULL, &items, &group, 0, NULL, NULL))
		return 5;
	CALL(int, clEnqueueReadBuffer, queue, to, 1, 0l, sizeof c, c, 0, NULL, NULL);
	for (int i = 0; i < ITEMS; i++)
		wrong += c[i] != 2 * i;
	printf("%d %s %u %d\n", wrong, name, arguments, of == program);
	fflush(stdout);
	if (count > 5)
		fgets(line, sizeof line, stdin);
	CALL(int, clReleaseKernel, clone);
	CALL(int, clReleaseKernel, kernel);
	CALL(int, clReleaseProgram, program);
	CALL(int, clReleaseCommandQueue, queue);
	CALL(int, clReleaseContext, context);
	return 0;
}
