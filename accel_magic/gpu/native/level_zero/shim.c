/* Stands in front of Level Zero's loader in a program that a traced cell has started: LD_PRELOAD.
 *
 * After any failure the program runs as without this library, and nothing is ever written to its output.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../common/handles.h"
#include "../common/launches.h"
#include "../common/maps.h"
#include "../common/notebook.h"
#include "../preload/preload.h"
#include "level_zero.h"
#include "memory.h"

enum { MOST = 65536, BUCKETS = 1024, NUMBER_SIZE = 8, LOG = 16384 };

/* Addresses of the wrappers, and their places in the table. */
#define DECLARE(name, arguments) SHOWN Result name arguments;
WRAPPED(DECLARE)
#undef DECLARE
#define PLACE(name, arguments) AT_##name,
enum { WRAPPED(PLACE) WRAPPERS };
#undef PLACE
#define REAL(name) ((__typeof__(&name))preload_real(AT_##name))

static Result missing(void)
{
	return ZE_UNSUPPORTED;
}

struct wrapper preload_wrappers[WRAPPERS] = {
#define NAMED(name, arguments) {#name, (void *)name, NULL},
    WRAPPED(NAMED)
#undef NAMED
};
const int preload_count = WRAPPERS;
const char preload_library[] = "libze_loader.so.1";
const char preload_owner[] = "Level Zero";
const char preload_prefix[] = "ze";
void *const preload_missing = (void *)missing;

struct function {
	int is_traced;
	uint32_t lanes;
	uint32_t block[3];
};

static struct handles modules, functions; /* numbers at the notebook */
static struct function function_of[MOST];
static _Atomic int is_traced_module[MOST];

/* What a module with programs in it was made from: the program may keep its machine code for later, without this trace. */
struct original {
	Handle context, device, module; /* null until it is needed */
	struct ze_module about;
};

static struct original original_of[MOST];

/* A launch that a command list has recorded. */
struct recorded {
	struct recorded *next;
	uint32_t function, number;
	struct shape shape;
};

struct list {
	struct list *next;
	Handle handle;
	int is_immediate;
	struct recorded *launches, **end;
};

static struct list *lists[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- modules ---- */

static int fits(Handle context, Handle device)
{
	static _Atomic int is_reported;
	struct ring *ring = notebook_ring();

	if (memory_choose(context, device))
		return 1;
	if (ring)
		atomic_fetch_add(&ring->elsewhere, 1);
	else if (!atomic_fetch_add(&is_reported, 1))
		notebook_greet();
	return 0;
}

static int has_several(const struct ze_module *about)
{
	for (const struct ze_extension *one = about->next; one; one = one->next)
		if (one->kind == OF_SEVERAL_MODULES)
			return 1;
	return 0;
}

/* Create a module with programs in it; 0 if it is to be created as it is. */
static int create_traced(Handle context, Handle device, const struct ze_module *about, Handle *module, Handle *log)
{
	struct image image = notebook_offer(about->data, about->size, (struct message){.b = IL}, about->options);
	struct ze_module changed = *about;
	char text[LOG] = "";
	size_t size = sizeof text - 1;
	Handle own_log = NULL;
	Result error;

	if (!image.data)
		return image.module ? -(int)image.module : 0;
	changed.data = image.data;
	changed.size = image.size;
	error = REAL(zeModuleCreate)(context, device, &changed, module, &own_log);
	if (error && own_log)
		ze.log_text(own_log, &size, text);
	if (!error && log)
		*log = own_log;
	else if (own_log)
		ze.destroy_log(own_log);
	image_free(notebook_loaded(image, (int)error, text));
	if (error)
		return -(int)image.module;
	image_free(image);
	return (int)image.module;
}

static void keep_original(int number, Handle context, Handle device, const struct ze_module *about)
{
	struct original *original = &original_of[number];
	void *data = malloc(about->size);

	if (!data)
		return;
	*original = (struct original){context, device, NULL, *about};
	original->about.data = memcpy(data, about->data, about->size);
	original->about.options = about->options ? strdup(about->options) : NULL;
	original->about.next = NULL;
	/* Their number and sizes are known only while they are there. */
	if (about->constants)
		REAL(zeModuleCreate)(context, device, about, &original->module, NULL);
	original->about.constants = NULL;
}

Result zeModuleGetNativeBinary(Handle module, size_t *size, uint8_t *data)
{
	uint32_t number = handles_get(&modules, module);
	struct original *original = number && number < MOST ? &original_of[number] : NULL;

	pthread_mutex_lock(&lock);
	if (original && original->about.data && !original->module)
		REAL(zeModuleCreate)(original->context, original->device, &original->about, &original->module, NULL);
	pthread_mutex_unlock(&lock);
	return REAL(zeModuleGetNativeBinary)(original && original->module ? original->module : module, size, data);
}

Result zeModuleDestroy(Handle module)
{
	uint32_t number = handles_get(&modules, module);
	struct original gone = {0};

	if (number && number < MOST) {
		handles_set(&modules, module, 0);
		gone = original_of[number];
		original_of[number] = (struct original){0};
	}
	free((void *)gone.about.data);
	free((void *)gone.about.options);
	if (gone.module)
		REAL(zeModuleDestroy)(gone.module);
	return REAL(zeModuleDestroy)(module);
}

Result zeModuleCreate(Handle context, Handle device, const struct ze_module *about, Handle *module, Handle *log)
{
	int number = 0;
	Result error;

	/* Several modules in one, and machine code, are left as they are. */
	if (about && module && about->format == FORMAT_SPIRV && about->data && !has_several(about)) {
		pthread_mutex_lock(&lock);
		if (fits(context, device))
			number = create_traced(context, device, about, module, log);
		pthread_mutex_unlock(&lock);
	} else if (about && module && memory_choose(context, device)) {
		notebook_connect();
	}
	if (number > 0 && number < MOST) {
		is_traced_module[number] = 1;
		keep_original(number, context, device, about);
		handles_set(&modules, *module, (uint32_t)number);
		return ZE_SUCCESS;
	}
	error = REAL(zeModuleCreate)(context, device, about, module, log);
	if (!error && notebook_ring())
		handles_set(&modules, *module, (uint32_t)-number);
	return error;
}

/* ---- kernels ---- */

Result zeKernelCreate(Handle module, const struct ze_kernel *about, Handle *kernel)
{
	struct ze_kernel_properties properties = {.kind = OF_KERNEL_PROPERTIES};
	uint32_t of = handles_get(&modules, module), number;
	Result error = REAL(zeKernelCreate)(module, about, kernel);

	if (error || !notebook_ring() || !calls_find())
		return error;
	if (!of)
		notebook_left(AS_BINARY, about->name);
	number = notebook_function(about->name, of);
	handles_set(&functions, *kernel, number);
	if (!number || number >= MOST)
		return error;
	function_of[number] = (struct function){of && of < MOST && is_traced_module[of], 0, {1, 1, 1}};
	if (!ze.kernel_properties(*kernel, &properties))
		function_of[number].lanes = properties.most_lanes;
	if (function_of[number].is_traced)
		REAL(zeKernelSetIndirectAccess)(*kernel, ANY_HOST_MEMORY | ANY_DEVICE_MEMORY);
	return error;
}

Result zeKernelSetIndirectAccess(Handle kernel, uint32_t flags)
{
	uint32_t number = handles_get(&functions, kernel);

	if (number && number < MOST && function_of[number].is_traced)
		flags |= ANY_HOST_MEMORY | ANY_DEVICE_MEMORY;
	return REAL(zeKernelSetIndirectAccess)(kernel, flags);
}

Result zeKernelSetGroupSize(Handle kernel, uint32_t x, uint32_t y, uint32_t z)
{
	uint32_t number = handles_get(&functions, kernel);
	Result error = REAL(zeKernelSetGroupSize)(kernel, x, y, z);

	if (!error && number && number < MOST)
		memcpy(function_of[number].block, (uint32_t[]){x, y, z}, sizeof function_of[number].block);
	return error;
}

/* ---- command lists ---- */

/* Requires the lock; null if the list is not known and `create` is 0, or without memory. */
static struct list *list_of(Handle handle, int create)
{
	struct list **place = &lists[((uintptr_t)handle >> 4) % BUCKETS], *list;

	for (list = *place; list && list->handle != handle; list = list->next)
		;
	if (list || !create || !(list = calloc(1, sizeof *list)))
		return list;
	*list = (struct list){*place, handle, 0, NULL, NULL};
	list->end = &list->launches;
	*place = list;
	return list;
}

static void forget(Handle handle, int is_gone)
{
	struct list *list;

	pthread_mutex_lock(&lock);
	list = list_of(handle, 0);
	while (list && list->launches) {
		struct recorded *next = list->launches->next;

		free(list->launches);
		list->launches = next;
	}
	if (list) {
		list->end = &list->launches;
		list->is_immediate &= !is_gone;
	}
	pthread_mutex_unlock(&lock);
}

Result zeCommandListCreateImmediate(Handle context, Handle device, const struct ze_queue *about, Handle *list)
{
	Result error = REAL(zeCommandListCreateImmediate)(context, device, about, list);
	struct list *known;

	if (error)
		return error;
	pthread_mutex_lock(&lock);
	known = list_of(*list, 1);
	if (known)
		known->is_immediate = 1;
	pthread_mutex_unlock(&lock);
	return error;
}

/* Have the device write the launch's number, after what is before it in the list, for programs that read it. */
static uint32_t write_number(Handle list)
{
	static _Atomic uint32_t count;
	uint64_t number = ++count;

	if (launches_are_numbered()) {
		ze.barrier(list, NULL, 0, NULL);
		for (int i = 0; launches_word(i); i++)
			ze.fill(list, launches_word(i), &number, NUMBER_SIZE, NUMBER_SIZE, NULL, 0, NULL);
		ze.barrier(list, NULL, 0, NULL);
	}
	return (uint32_t)number;
}

/* A kernel was appended to a list: report it now, or when the list is executed. */
static void appended(Handle handle, uint32_t function, uint32_t number, const struct shape *shape, uint64_t before)
{
	struct recorded *launch;
	struct list *list;

	pthread_mutex_lock(&lock);
	list = list_of(handle, 1);
	if (list && !list->is_immediate && (launch = calloc(1, sizeof *launch))) {
		*launch = (struct recorded){NULL, function, number, *shape};
		*list->end = launch;
		list->end = &launch->next;
	}
	pthread_mutex_unlock(&lock);
	if (list && list->is_immediate)
		launches_report(function, shape, before, number);
}

static struct shape shape_of(Handle list, uint32_t number, const struct ze_groups *groups)
{
	struct function *function = &function_of[number < MOST ? number : 0];
	struct shape shape = {.lanes = function->lanes, .stream = list};

	memcpy(shape.block, function->block, sizeof shape.block);
	if (groups)
		memcpy(shape.grid, groups, sizeof shape.grid);
	/* Which work-items a sub-group has, is the driver's choice if a work-group has several axes. */
	if (shape.block[1] * shape.block[2] != 1)
		shape.lanes = 0;
	return shape;
}

/* Groups of indirect launches are in the device's memory: they are not read. */
#define LAUNCHING(name, read)                                                                                           \
	Result name(Handle list, Handle kernel, const struct ze_groups *groups, Handle event, uint32_t count,           \
		    Handle *events)                                                                                     \
	{                                                                                                               \
		uint32_t function = handles_get(&functions, kernel), number = 0;                                        \
		uint64_t before = now_ns();                                                                             \
		struct shape shape;                                                                                     \
		Result error;                                                                                           \
                                                                                                                        \
		if (function && notebook_ring())                                                                        \
			number = write_number(list);                                                                    \
		error = REAL(name)(list, kernel, groups, event, count, events);                                         \
		if (!error && number) {                                                                                 \
			shape = shape_of(list, function, read ? groups : NULL);                                         \
			appended(list, function, number, &shape, before);                                               \
		}                                                                                                       \
		return error;                                                                                           \
	}

LAUNCHING(zeCommandListAppendLaunchKernel, 1)
LAUNCHING(zeCommandListAppendLaunchCooperativeKernel, 1)
LAUNCHING(zeCommandListAppendLaunchKernelIndirect, 0)

/* Executed again, launches have the numbers of the first time. */
Result zeCommandQueueExecuteCommandLists(Handle queue, uint32_t count, Handle *executed, Handle fence)
{
	uint64_t before = now_ns();
	Result error = REAL(zeCommandQueueExecuteCommandLists)(queue, count, executed, fence);

	if (error || !notebook_ring())
		return error;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < count; i++) {
		struct list *list = list_of(executed[i], 0);

		for (struct recorded *one = list ? list->launches : NULL; one; one = one->next) {
			one->shape.stream = queue;
			launches_report(one->function, &one->shape, before, one->number);
			one->number = 0;
		}
	}
	pthread_mutex_unlock(&lock);
	return error;
}

Result zeCommandListReset(Handle list)
{
	forget(list, 0);
	return REAL(zeCommandListReset)(list);
}

Result zeCommandListDestroy(Handle list)
{
	forget(list, 1);
	return REAL(zeCommandListDestroy)(list);
}

Result zeContextDestroy(Handle context)
{
	if (context && context == memory_context())
		maps_end(1);
	return REAL(zeContextDestroy)(context);
}
