#include <stddef.h>
#include <stdint.h>

#define CALL(name, ...) __attribute__((noinline)) int name(__VA_ARGS__)
#define MADE(where) do { *(where) = (void *)(uintptr_t)++made; } while (0)

static volatile uintptr_t made = 0x7000;

CALL(zeContextCreate, void *driver, const void *desc, void **context) { MADE(context); return 0; }
CALL(zeMemAllocHost, void *context, const void *desc, size_t size, size_t alignment, void **p) { MADE(p); return 0; }
CALL(zeMemAllocDevice, void *context, const void *desc, size_t size, size_t alignment, void *device, void **p)
{ MADE(p); return 0; }
CALL(zeMemAllocShared, void *context, const void *desc, const void *host, size_t size, size_t alignment, void *device,
     void **p) { MADE(p); return 0; }
CALL(zeMemFree, void *context, void *p) { made++; return 0; }
CALL(zeCommandListCreate, void *context, void *device, const void *desc, void **list) { MADE(list); return 0; }
CALL(zeCommandListAppendMemoryCopy, void *list, void *to, const void *from, size_t size, void *event, uint32_t events,
     void **wait) { made++; return 0; }
CALL(zeCommandListAppendMemoryFill, void *list, void *to, const void *pattern, size_t each, size_t size, void *event,
     uint32_t events, void **wait) { made++; return 0; }
CALL(zeCommandQueueCreate, void *context, void *device, const void *desc, void **queue) { MADE(queue); return 0; }
CALL(zeCommandQueueExecuteCommandLists, void *queue, uint32_t count, void **lists, void *fence) { made++; return 0; }
CALL(zeFenceCreate, void *queue, const void *desc, void **fence) { MADE(fence); return 0; }
CALL(zeFenceHostSynchronize, void *fence, uint64_t timeout) { made++; return 1; }
CALL(zeEventPoolCreate, void *context, const void *desc, uint32_t devices, void **device, void **pool)
{ MADE(pool); return 0; }
CALL(zeEventCreate, void *pool, const void *desc, void **event) { MADE(event); return 0; }
CALL(zeEventHostSynchronize, void *event, uint64_t timeout) { made++; return 0; }
CALL(zeDriverGetExtensionFunctionAddress, void *driver, const char *name, void **function)
{ made += name[0]; MADE(function); return 0; }

void *run(void)
{
	void *context, *host, *device, *shared, *list, *queue, *fence, *pool, *event, *function;
	void *const driver = (void *)0x11, *const npu = (void *)0x12;

	zeDriverGetExtensionFunctionAddress(driver, "ZE_extension_graph", &function);
	zeContextCreate(driver, NULL, &context);
	zeMemAllocHost(context, NULL, 1001, 64, &host);
	zeMemAllocDevice(context, NULL, 1002, 64, npu, &device);
	zeMemAllocShared(context, NULL, NULL, 1003, 64, npu, &shared);
	zeCommandListCreate(context, npu, NULL, &list);
	zeCommandListAppendMemoryCopy(list, device, host, 1004, NULL, 0, NULL);
	zeCommandListAppendMemoryFill(list, device, host, 8, 1005, NULL, 0, NULL);
	zeCommandQueueCreate(context, npu, NULL, &queue);
	zeFenceCreate(queue, NULL, &fence);
	zeCommandQueueExecuteCommandLists(queue, 3, &list, fence);
	zeFenceHostSynchronize(fence, UINT64_MAX);
	zeEventPoolCreate(context, NULL, 0, NULL, &pool);
	zeEventCreate(pool, NULL, &event);
	zeEventHostSynchronize(event, 77);
	zeMemFree(context, host);
	static void *all[9];
	all[0] = context, all[1] = host, all[2] = device, all[3] = list, all[4] = queue, all[5] = fence, all[6] = pool;
	all[7] = event, all[8] = shared;
	return all;
}
