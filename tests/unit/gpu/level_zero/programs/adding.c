/* A native Level Zero program that knows nothing of a trace: adds arrays, and checks the sums.
 *
 * adding LOADER SPIRV immediate|executed|native LAUNCHES [wait]. Prints wrong elements.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../../../accel_magic/gpu/native/level_zero/level_zero.h"

enum { ITEMS = 256, GROUP = 16, TIMES = 2 };

static void *loader;

#define CALL(name, ...) ((Result(*)())dlsym(loader, #name))(__VA_ARGS__)

int main(int count, char **words)
{
	static char data[1 << 20];
	FILE *file;
	struct ze_module about = {.kind = 0x1b, .data = data};
	struct ze_kernel named = {.kind = 0x1d, .name = "add"};
	struct ze_queue of_queue = {.kind = OF_QUEUE, .mode = MODE_SYNCHRONOUS};
	struct ze_host_memory of_memory = {.kind = OF_HOST_MEMORY};
	struct ze_groups groups = {ITEMS / GROUP, 1, 1};
	void *driver, *device, *context, *module, *kernel, *queue, *list, *log = NULL;
	unsigned one = 1, many = ITEMS;
	float *a, *c;
	int launches = atoi(words[4]), wrong = 0, immediate = !strcmp(words[3], "immediate");
	char line[8];

	loader = dlopen(words[1], RTLD_NOW);
	if (!loader || CALL(zeInit, 0))
		return 2;
	file = fopen(words[2], "rb");
	about.size = fread(data, 1, sizeof data, file);
	CALL(zeDriverGet, &one, &driver);
	CALL(zeDeviceGet, driver, &one, &device);
	CALL(zeContextCreate, driver, NULL, &context);
	if (CALL(zeModuleCreate, context, device, &about, &module, &log))
		return 3;
	CALL(zeModuleBuildLogDestroy, log);
	if (!strcmp(words[3], "native")) {
		CALL(zeModuleGetNativeBinary, module, &about.size, NULL);
		CALL(zeModuleGetNativeBinary, module, &about.size, data);
		CALL(zeModuleDestroy, module);
		about.format = 1;
		if (CALL(zeModuleCreate, context, device, &about, &module, NULL))
			return 4;
	}
	if (CALL(zeKernelCreate, module, &named, &kernel))
		return 5;
	CALL(zeMemAllocHost, context, &of_memory, sizeof(float) * ITEMS, (size_t)64, (void **)&a);
	CALL(zeMemAllocHost, context, &of_memory, sizeof(float) * ITEMS, (size_t)64, (void **)&c);
	for (int i = 0; i < ITEMS; i++)
		a[i] = i;
	CALL(zeKernelSetGroupSize, kernel, GROUP, 1, 1);
	CALL(zeKernelSetArgumentValue, kernel, 0, sizeof a, &a);
	CALL(zeKernelSetArgumentValue, kernel, 1, sizeof a, &a);
	CALL(zeKernelSetArgumentValue, kernel, 2, sizeof c, &c);
	CALL(zeKernelSetArgumentValue, kernel, 3, sizeof many, &many);
	CALL(zeKernelSetIndirectAccess, kernel, 0);
	if (immediate)
		CALL(zeCommandListCreateImmediate, context, device, &of_queue, &list);
	else
		CALL(zeCommandListCreate, context, device, NULL, &list);
	for (int i = 0; i < launches; i++)
		if (CALL(zeCommandListAppendLaunchKernel, list, kernel, &groups, NULL, 0, NULL))
			return 6;
	if (!immediate) {
		CALL(zeCommandListClose, list);
		CALL(zeCommandQueueCreate, context, device, &of_queue, &queue);
		for (int i = 0; i < TIMES; i++)
			if (CALL(zeCommandQueueExecuteCommandLists, queue, 1, &list, NULL))
				return 7;
		CALL(zeCommandQueueSynchronize, queue, ~0ull);
	}
	for (int i = 0; i < ITEMS; i++)
		wrong += c[i] != 2 * i;
	printf("%d\n", wrong);
	fflush(stdout);
	if (count > 5)
		fgets(line, sizeof line, stdin);
	CALL(zeCommandListDestroy, list);
	CALL(zeKernelDestroy, kernel);
	CALL(zeModuleDestroy, module);
	CALL(zeContextDestroy, context);
	return 0;
}
