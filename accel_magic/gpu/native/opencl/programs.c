/* Wrappers of calls that create, build and release programs.
 *
 * The user's programs stay as they are. Each gets a version with programs of the trace, from the same SPIR-V or source,
 * which is built for the same devices and has the same specialization constants. Its kernels run instead.
 */
#define _GNU_SOURCE
#include "programs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/maps.h"
#include "memory.h"
#include "wrapped.h"

enum { BUCKETS = 1024, OPTIONS = 4096, LOG = 16384 };

struct known {
	struct known *next;
	Handle program, context;
	struct program found;
	struct image image; /* of SPIR-V, until it is built */
	char *source;       /* OpenCL C; null for SPIR-V */
	size_t size;
};

static struct known *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct known **place_of(Handle program)
{
	struct known **place = &buckets[((uintptr_t)program >> 4) % BUCKETS];

	while (*place && (*place)->program != program)
		place = &(*place)->next;
	return place;
}

/* Requires the lock. */
static void forget(Handle program)
{
	struct known **place = place_of(program), *gone = *place;

	if (!gone)
		return;
	*place = gone->next;
	if (gone->found.traced)
		BELOW(clReleaseProgram)(gone->found.traced);
	free(gone->source);
	free(gone);
}

/* Requires the lock; null without memory. */
static struct known *remember(Handle program, Handle context)
{
	struct known *known = calloc(1, sizeof *known);

	forget(program); /* an earlier one with this handle */
	if (!known)
		return NULL;
	known->program = program;
	known->context = context;
	known->next = *place_of(program);
	*place_of(program) = known;
	return known;
}

struct program programs_find(Handle program)
{
	struct program found = {0};
	struct known *known;

	pthread_mutex_lock(&lock);
	known = *place_of(program);
	if (known)
		found = known->found;
	pthread_mutex_unlock(&lock);
	return found;
}

/* Whether a context has the traced device; otherwise this is reported. Requires the lock. */
static int fits(Handle context)
{
	static int is_reported;
	struct ring *ring = notebook_ring();

	memory_choose(context);
	if (memory_device())
		return 1;
	if (ring)
		atomic_fetch_add(&ring->elsewhere, 1);
	else if (!is_reported++)
		notebook_greet();
	return 0;
}

/* Report what the device says of a program that it rejects. */
static void reject(struct known *known, int error)
{
	char log[LOG] = "";
	Handle device = memory_device();

	if (device && known->found.traced)
		BELOW(clGetProgramBuildInfo)(known->found.traced, device, BUILD_LOG, sizeof log - 1, log, NULL);
	image_free(notebook_loaded(known->image, error, log));
	known->image = (struct image){0};
	if (known->found.traced)
		BELOW(clReleaseProgram)(known->found.traced);
	known->found.traced = NULL;
}

/* Create the version that the notebook made of a program. Requires the lock. */
static void create_traced(struct known *known)
{
	int error = SUCCESS;

	known->found.module = known->image.module;
	known->found.uses_lanes = known->image.lanes != 0;
	if (!known->image.data)
		return;
	known->found.traced = with_il(known->context, known->image.data, known->image.size, &error);
	if (!known->found.traced)
		reject(known, error ? error : INVALID_VALUE);
}

/* Options that programs from SPIR-V take too. */
static void options_of_il(const char *options, char *kept)
{
	char all[OPTIONS], *rest = all, *word;

	*kept = 0;
	snprintf(all, sizeof all, "%s", options ? options : "");
	while ((word = strtok_r(rest, " \t\n", &rest))) {
		if (!strncmp(word, "-cl-std", 7) || !strncmp(word, "-cl-kernel-arg-info", 19))
			continue;
		if (!strncmp(word, "-cl-", 4) || !strcmp(word, "-w") || !strcmp(word, "-Werror")) {
			strcat(kept, word);
			strcat(kept, " ");
		}
	}
}

/* Build the version with programs for the same devices. */
static void build_traced(Handle program, unsigned count, const Handle *devices, const char *options)
{
	char kept[OPTIONS + 2];
	struct known *known;
	int error;

	pthread_mutex_lock(&lock);
	known = *place_of(program);
	if (known && known->source && fits(known->context)) {
		if (known->found.traced) /* it is built again, perhaps with other options */
			BELOW(clReleaseProgram)(known->found.traced);
		known->found.traced = NULL;
		known->image = notebook_offer(known->source, known->size, (struct message){.b = SOURCE}, options);
		create_traced(known);
	}
	if (known && known->found.traced && known->image.data) {
		memory_choose(known->context);
		options_of_il(options, kept);
		error = BELOW(clBuildProgram)(known->found.traced, count, devices, kept, NULL, NULL);
		if (error) {
			reject(known, error);
		} else {
			notebook_loaded(known->image, error, NULL);
			image_free(known->image);
			known->image = (struct image){0};
		}
	}
	pthread_mutex_unlock(&lock);
}

int wrapped_clBuildProgram(Handle program, unsigned count, const Handle *devices, const char *options, Notify *notify,
			   void *data)
{
	int error;

	if (notify) /* kernels may be created as soon as it is called */
		build_traced(program, count, devices, options);
	error = BELOW(clBuildProgram)(program, count, devices, options, notify, data);
	if (!notify && !error)
		build_traced(program, count, devices, options);
	return error;
}

void programs_with_il(Handle program, Handle context, const void *code, size_t size)
{
	struct known *known;

	pthread_mutex_lock(&lock);
	known = remember(program, context);
	if (known && fits(context)) {
		known->image = notebook_offer(code, size, (struct message){.b = IL}, NULL);
		create_traced(known);
	}
	pthread_mutex_unlock(&lock);
}

static void keep_source(struct known *known, unsigned count, const char **texts, const size_t *sizes)
{
	size_t whole = 0, size;

	for (unsigned i = 0; i < count; i++)
		whole += sizes && sizes[i] ? sizes[i] : strlen(texts[i]);
	known->source = malloc(whole + 1);
	if (!known->source)
		return;
	for (unsigned i = 0; i < count; i++) {
		size = sizes && sizes[i] ? sizes[i] : strlen(texts[i]);
		memcpy(known->source + known->size, texts[i], size);
		known->size += size;
	}
}

Handle wrapped_clCreateProgramWithSource(Handle context, unsigned count, const char **texts, const size_t *sizes,
					 int *error)
{
	Handle program = BELOW(clCreateProgramWithSource)(context, count, texts, sizes, error);
	struct known *known;

	if (!program)
		return NULL;
	pthread_mutex_lock(&lock);
	known = remember(program, context);
	if (known)
		keep_source(known, count, texts, sizes);
	pthread_mutex_unlock(&lock);
	return program;
}

/* Remember a program that cannot be traced, and connect to the notebook, which is told when its kernels are created. */
static Handle left(Handle program, Handle context, enum left reason)
{
	struct known *known;

	if (!program)
		return NULL;
	pthread_mutex_lock(&lock);
	known = remember(program, context);
	if (known) {
		known->found.left = reason;
		if (fits(context))
			notebook_connect();
	}
	pthread_mutex_unlock(&lock);
	return program;
}

Handle wrapped_clCreateProgramWithBinary(Handle context, unsigned count, const Handle *devices, const size_t *sizes,
					 const unsigned char **binaries, int *status, int *error)
{
	Handle program = BELOW(clCreateProgramWithBinary)(context, count, devices, sizes, binaries, status, error);

	return left(program, context, AS_BINARY);
}

Handle wrapped_clLinkProgram(Handle context, unsigned count, const Handle *devices, const char *options, unsigned inputs,
			     const Handle *programs, Notify *notify, void *data, int *error)
{
	Handle program =
	    BELOW(clLinkProgram)(context, count, devices, options, inputs, programs, notify, data, error);

	return left(program, context, LINKED);
}

int wrapped_clSetProgramSpecializationConstant(Handle program, unsigned number, size_t size, const void *value)
{
	struct program found = programs_find(program);

	if (found.traced)
		BELOW(clSetProgramSpecializationConstant)(found.traced, number, size, value);
	return BELOW(clSetProgramSpecializationConstant)(program, number, size, value);
}

int wrapped_clReleaseProgram(Handle program)
{
	unsigned references = 0;

	pthread_mutex_lock(&lock);
	if (READ(clGetProgramInfo, program, PROGRAM_REFERENCES, references) && references == 1)
		forget(program);
	pthread_mutex_unlock(&lock);
	return BELOW(clReleaseProgram)(program);
}
