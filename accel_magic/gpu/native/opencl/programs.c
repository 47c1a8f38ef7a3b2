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

enum { BUCKETS = 1024, OPTIONS = 4096, LOG = 16384, MOST_DEVICES = 64 };

/* What a program was made from. */
struct code {
	enum language language;
	char *data; /* null if that is not known */
	size_t size;
	char *options; /* it was built with, or null */
};

struct known {
	struct known *next;
	Handle program, context;
	struct program found;
	struct image image; /* until it is built */
	struct code code;
	int is_binary; /* whether it was loaded as what the code was built to before, with the code's options */
};

/* What programs were built to, as far as the program has asked for it: it may load that again. */
struct built {
	struct built *next;
	uint64_t hash;
	size_t size;
	struct code code;
};

static struct known *buckets[BUCKETS];
static struct built *all_built;
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
	free(gone->code.data);
	free(gone->code.options);
	free(gone);
}

static struct code copy_of(const struct code *code)
{
	struct code copy = {code->language, malloc(code->size + 1), code->size, NULL};

	if (copy.data)
		memcpy(copy.data, code->data, code->size);
	if (code->options)
		copy.options = strdup(code->options);
	return copy;
}

/* FNV-1a. */
static uint64_t hash_of(const unsigned char *data, size_t size)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ data[i]) * 0x100000001b3u;
	return hash;
}

/* The code that a binary was built from in this process; null if that is not known. Requires the lock. */
static const struct code *code_of(const unsigned char *binary, size_t size)
{
	uint64_t hash = hash_of(binary, size);

	for (struct built *one = all_built; one; one = one->next)
		if (one->hash == hash && one->size == size)
			return &one->code;
	return NULL;
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

	if (memory_choose(context))
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

/* Remember the options of a program's build; those of a binary are known. Requires the lock. */
static const char *options_of(struct known *known, const char *options)
{
	if (!known->is_binary) {
		free(known->code.options);
		known->code.options = options ? strdup(options) : NULL;
	}
	return known->code.options;
}

/* Build the version with programs for the same devices. */
static void build_traced(Handle program, unsigned count, const Handle *devices, const char *options)
{
	char kept[OPTIONS + 2];
	struct known *known;
	int error;

	pthread_mutex_lock(&lock);
	known = *place_of(program);
	if (known)
		options = options_of(known, options);
	if (known && known->code.data && known->code.language == SOURCE && fits(known->context)) {
		if (known->found.traced) /* it is built again, perhaps with other options */
			BELOW(clReleaseProgram)(known->found.traced);
		known->found.traced = NULL;
		known->image =
		    notebook_offer(known->code.data, known->code.size, (struct message){.b = SOURCE}, options);
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

/* Requires the lock. */
static void offer_il(struct known *known)
{
	if (!known->code.data || !fits(known->context))
		return;
	known->image = notebook_offer(known->code.data, known->code.size, (struct message){.b = IL}, NULL);
	create_traced(known);
}

void programs_with_il(Handle program, Handle context, const void *code, size_t size)
{
	struct known *known;

	pthread_mutex_lock(&lock);
	known = remember(program, context);
	if (known) {
		known->code = copy_of(&(struct code){IL, (char *)code, size, NULL});
		offer_il(known);
	}
	pthread_mutex_unlock(&lock);
}

static void keep_source(struct known *known, unsigned count, const char **texts, const size_t *sizes)
{
	size_t whole = 0, size;

	for (unsigned i = 0; i < count; i++)
		whole += sizes && sizes[i] ? sizes[i] : strlen(texts[i]);
	known->code = (struct code){SOURCE, malloc(whole + 1), 0, NULL};
	if (!known->code.data)
		return;
	for (unsigned i = 0; i < count; i++) {
		size = sizes && sizes[i] ? sizes[i] : strlen(texts[i]);
		memcpy(known->code.data + known->code.size, texts[i], size);
		known->code.size += size;
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
	const struct code *code;
	struct known *known = NULL;

	if (!program)
		return NULL;
	pthread_mutex_lock(&lock);
	code = count ? code_of(binaries[0], sizes[0]) : NULL;
	if (code && (known = remember(program, context))) {
		known->is_binary = 1;
		known->code = copy_of(code);
		if (code->language == IL)
			offer_il(known);
	}
	pthread_mutex_unlock(&lock);
	return known ? program : left(program, context, AS_BINARY);
}

static void remember_built(const struct code *code, const unsigned char *binary, size_t size)
{
	struct built *built;

	if (!binary || !size || code_of(binary, size) || !(built = calloc(1, sizeof *built)))
		return;
	*built = (struct built){all_built, hash_of(binary, size), size, copy_of(code)};
	all_built = built;
}

/* The program may load what its programs were built to again, then as binaries. */
int wrapped_clGetProgramInfo(Handle program, unsigned what, size_t room, void *value, size_t *needed)
{
	int error = BELOW(clGetProgramInfo)(program, what, room, value, needed);
	size_t sizes[MOST_DEVICES], given = 0;
	struct known *known;

	if (error || what != PROGRAM_BINARIES || !value ||
	    BELOW(clGetProgramInfo)(program, PROGRAM_BINARY_SIZES, sizeof sizes, sizes, &given))
		return error;
	pthread_mutex_lock(&lock);
	known = *place_of(program);
	for (size_t i = 0; known && known->code.data && i < given / sizeof *sizes && i < room / sizeof(void *); i++)
		remember_built(&known->code, ((unsigned char **)value)[i], sizes[i]);
	pthread_mutex_unlock(&lock);
	return error;
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
