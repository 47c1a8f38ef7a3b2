/* Wrappers of calls of kernels: those with programs run instead, launches are reported. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/launches.h"
#include "../common/maps.h"
#include "memory.h"
#include "programs.h"
#include "wrapped.h"

enum { BUCKETS = 4096, NAME = 1024, MOST_LANES = 32, AXES = 3 };
enum { PATIENCE_S = 10, SECOND_NS = 1000000000, PAUSE_NS = 50000 };

struct kernel {
	struct kernel *next;
	Handle handle;
	Handle original;   /* the user's kernel, if this one has programs in it */
	uint32_t function; /* its number at the notebook */
	uint32_t lanes;    /* the most of its sub-groups; 0 if that is not known */
};

/* Functions that the notebook knows. */
struct function {
	struct function *next;
	uint32_t module, number;
	char name[];
};

static struct kernel *buckets[BUCKETS];
static struct function *functions;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

typedef int SuggestGroup(Handle queue, Handle kernel, unsigned axes, const size_t *offset, const size_t *items,
			 size_t *group);

static struct kernel **place_of(Handle handle)
{
	struct kernel **place = &buckets[((uintptr_t)handle >> 4) % BUCKETS];

	while (*place && (*place)->handle != handle)
		place = &(*place)->next;
	return place;
}

static struct kernel found(Handle handle)
{
	struct kernel copy = {0};
	struct kernel *kernel;

	pthread_rwlock_rdlock(&lock);
	kernel = *place_of(handle);
	if (kernel)
		copy = *kernel;
	pthread_rwlock_unlock(&lock);
	return copy;
}

static void forget(Handle handle)
{
	struct kernel **place, *gone;

	pthread_rwlock_wrlock(&lock);
	place = place_of(handle);
	gone = *place;
	if (gone)
		*place = gone->next;
	pthread_rwlock_unlock(&lock);
	if (gone && gone->original)
		BELOW(clReleaseKernel)(gone->original);
	free(gone);
}

static void remember(Handle handle, Handle original, uint32_t function, size_t lanes)
{
	struct kernel *kernel = calloc(1, sizeof *kernel), **place;

	forget(handle); /* an earlier one with this handle */
	if (!kernel)
		return;
	*kernel = (struct kernel){NULL, handle, original, function, (uint32_t)lanes};
	pthread_rwlock_wrlock(&lock);
	place = place_of(handle);
	kernel->next = *place;
	*place = kernel;
	pthread_rwlock_unlock(&lock);
}

/* The number of a function at the notebook, to which each is reported once. */
static uint32_t number_of(const char *name, uint32_t module)
{
	struct function *one;
	uint32_t number = 0;

	pthread_rwlock_wrlock(&lock);
	for (one = functions; one && !number; one = one->next)
		if (one->module == module && !strcmp(one->name, name))
			number = one->number;
	if (!number && notebook_ring() && (one = malloc(sizeof *one + strlen(name) + 1))) {
		number = notebook_function(name, module);
		*one = (struct function){functions, module, number};
		strcpy(one->name, name);
		functions = one;
	}
	pthread_rwlock_unlock(&lock);
	return number;
}

/* The most lanes that a kernel's sub-groups can have; 0 if the device does not say. */
static size_t lanes_of(Handle kernel)
{
	Handle device = memory_device();
	size_t group = 0, lanes = 0;

	if (!device || !BELOW(clGetKernelSubGroupInfo) ||
	    BELOW(clGetKernelWorkGroupInfo)(kernel, device, WORK_GROUP_SIZE, sizeof group, &group, NULL) ||
	    BELOW(clGetKernelSubGroupInfo)(kernel, device, SUB_GROUP_SIZE, sizeof group, &group, sizeof lanes, &lanes, NULL))
		return 0;
	return lanes;
}

/* The version of a kernel with programs in it, or else the kernel itself. */
static Handle chosen(Handle kernel, const struct program *program, const char *name)
{
	Handle traced = NULL, original = kernel;
	uint32_t module = program->module;
	int error;

	if (program->left)
		notebook_left(program->left, name);
	else if (program->traced && !(traced = BELOW(clCreateKernel)(program->traced, name, &error)))
		module = 0;
	if (traced && program->uses_lanes && lanes_of(traced) > MOST_LANES) {
		notebook_left(TOO_MANY_LANES, name);
		BELOW(clReleaseKernel)(traced);
		traced = NULL;
		module = 0;
	}
	if (traced)
		memory_attach(traced);
	kernel = traced ? traced : kernel;
	remember(kernel, traced ? original : NULL, number_of(name, module), lanes_of(kernel));
	return kernel;
}

Handle wrapped_clCreateKernel(Handle program, const char *name, int *error)
{
	Handle kernel = BELOW(clCreateKernel)(program, name, error);
	struct program known = programs_find(program);

	if (!kernel || (!known.module && !known.left))
		return kernel;
	return chosen(kernel, &known, name);
}

int wrapped_clCreateKernelsInProgram(Handle program, unsigned count, Handle *kernels, unsigned *needed)
{
	struct program known = programs_find(program);
	unsigned created = 0;
	int error = BELOW(clCreateKernelsInProgram)(program, count, kernels, &created);
	char name[NAME];

	if (needed)
		*needed = created;
	for (unsigned i = 0; !error && kernels && (known.module || known.left) && i < created; i++)
		if (!BELOW(clGetKernelInfo)(kernels[i], KERNEL_NAME, sizeof name, name, NULL))
			kernels[i] = chosen(kernels[i], &known, name);
	return error;
}

Handle wrapped_clCloneKernel(Handle kernel, int *error)
{
	struct kernel known = found(kernel);
	Handle clone = BELOW(clCloneKernel)(kernel, error), original = NULL;
	int ignored;

	if (!clone || !known.handle)
		return clone;
	if (known.original && !(original = BELOW(clCloneKernel)(known.original, &ignored)))
		return clone;
	remember(clone, original, known.function, known.lanes);
	return clone;
}

int wrapped_clReleaseKernel(Handle kernel)
{
	unsigned references = 0;

	if (READ(clGetKernelInfo, kernel, KERNEL_REFERENCES, references) && references == 1)
		forget(kernel);
	return BELOW(clReleaseKernel)(kernel);
}

int wrapped_clGetKernelInfo(Handle kernel, unsigned what, size_t size, void *value, size_t *needed)
{
	Handle original = what == KERNEL_REFERENCES ? NULL : found(kernel).original;

	return BELOW(clGetKernelInfo)(original ? original : kernel, what, size, value, needed);
}

int wrapped_clGetKernelArgInfo(Handle kernel, unsigned argument, unsigned what, size_t size, void *value, size_t *needed)
{
	Handle original = found(kernel).original;

	return BELOW(clGetKernelArgInfo)(original ? original : kernel, argument, what, size, value, needed);
}

int wrapped_clSetKernelExecInfo(Handle kernel, unsigned what, size_t size, const void *value)
{
	if (found(kernel).original)
		return memory_set_access(kernel, what, size, value);
	return BELOW(clSetKernelExecInfo)(kernel, what, size, value);
}

/* ---- launches ---- */

/* The device's choice of a work-group; of one work-item if it does not say. */
static void suggest(Handle queue, Handle kernel, unsigned axes, const size_t *offset, const size_t *items, size_t *group)
{
	Handle device = NULL;
	SuggestGroup *ask = NULL;

	if (READ(clGetCommandQueueInfo, queue, QUEUE_DEVICE, device))
		ask = (SuggestGroup *)extension(device, "clGetKernelSuggestedLocalWorkSizeKHR");
	if (!ask || ask(queue, kernel, axes, offset, items, group))
		for (unsigned i = 0; i < axes; i++)
			group[i] = 1;
}

static struct shape shape_of(Handle queue, Handle kernel, unsigned axes, const size_t *offset, const size_t *items,
			     const size_t *group)
{
	struct shape shape = {{1, 1, 1}, {1, 1, 1}, .stream = queue};
	size_t suggested[AXES];

	if (!items || axes > AXES)
		return shape;
	if (!group)
		suggest(queue, kernel, axes, offset, items, suggested);
	for (unsigned i = 0; i < axes; i++) {
		shape.block[i] = (unsigned)(group ? group[i] : suggested[i]);
		shape.grid[i] = (unsigned)((items[i] + shape.block[i] - 1) / (shape.block[i] ? shape.block[i] : 1));
	}
	return shape;
}

/* Launches run one by one while programs read their number: each waits for the one before, but not forever, because
 * that may wait for what the program does next. */
static struct {
	pthread_mutex_t lock;
	Handle queue, event; /* of the launch before */
	_Atomic uint32_t count;
} turn = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void wait_for_last(void)
{
	struct timespec pause = {0, PAUSE_NS};
	uint64_t until = now_ns() + (uint64_t)PATIENCE_S * SECOND_NS;
	struct ring *ring = notebook_ring();
	int status = COMPLETE;

	if (!turn.event)
		return;
	BELOW(clFlush)(turn.queue);
	while (READ(clGetEventInfo, turn.event, EVENT_STATUS, status) && status > COMPLETE && now_ns() < until)
		nanosleep(&pause, NULL);
	if (status > COMPLETE && ring)
		atomic_fetch_add(&ring->overlapping, 1);
	BELOW(clReleaseEvent)(turn.event);
	turn.event = NULL;
}

struct launching {
	uint64_t before;
	struct kernel kernel;
	uint32_t number;
	Handle own_event;
	int is_alone;
};

/* Begin a launch; returns where its event goes. */
static Handle *begin(struct launching *launching, Handle kernel, Handle *event)
{
	struct ring *ring = notebook_ring();

	*launching = (struct launching){.kernel = found(kernel)};
	if (!ring || !launching->kernel.handle)
		return event;
	launching->is_alone = launches_are_numbered();
	if (launching->is_alone) {
		pthread_mutex_lock(&turn.lock);
		wait_for_last();
	}
	launching->number = ++turn.count;
	if (launching->is_alone)
		launches_write_number(launching->number);
	launching->before = now_ns();
	return launching->is_alone && !event ? &launching->own_event : event;
}

static int end(struct launching *launching, int error, struct shape *shape, const Handle *event)
{
	if (launching->is_alone) {
		if (!error) {
			turn.queue = shape->stream;
			turn.event = *event;
			if (!launching->own_event)
				BELOW(clRetainEvent)(turn.event);
		}
		pthread_mutex_unlock(&turn.lock);
	}
	/* Which work-items a sub-group has, is the driver's choice if a work-group has several axes. */
	shape->lanes = shape->block[1] * shape->block[2] == 1 ? launching->kernel.lanes : 0;
	if (!error && launching->before)
		launches_report(launching->kernel.function, shape, launching->before, launching->number);
	return error;
}

int wrapped_clEnqueueNDRangeKernel(Handle queue, Handle kernel, unsigned axes, const size_t *offset, const size_t *items,
				   const size_t *group, unsigned count, const Handle *events, Handle *event)
{
	struct launching launching;
	Handle *to = begin(&launching, kernel, event);
	struct shape shape = {.stream = queue};
	int error =
	    BELOW(clEnqueueNDRangeKernel)(queue, kernel, axes, offset, items, group, count, events, to);

	if (!error && launching.before)
		shape = shape_of(queue, kernel, axes, offset, items, group);
	return end(&launching, error, &shape, to);
}

int wrapped_clEnqueueTask(Handle queue, Handle kernel, unsigned count, const Handle *events, Handle *event)
{
	struct shape shape = {{1, 1, 1}, {1, 1, 1}, .stream = queue};
	struct launching launching;
	Handle *to = begin(&launching, kernel, event);

	return end(&launching, BELOW(clEnqueueTask)(queue, kernel, count, events, to), &shape, to);
}
