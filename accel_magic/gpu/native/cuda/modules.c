#define _GNU_SOURCE
#include "modules.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../common/api.h"
#include "../common/handles.h"

enum { MOST = 65536, ATTEMPTS = 2, MOST_OPTIONS = 64 };

struct module {
	int traced_library; /* a library with programs in it */
	void *image;        /* its original */
	Handle original;    /* loaded if kernels cannot access the maps */
};

struct function {
	const char *name;
	uint32_t module;
};

static struct handles modules, functions;
static _Atomic int used; /* whether any of the tables has an entry */
static struct module module_of[MOST];
static struct function function_of[MOST];
static pthread_mutex_t loading_original = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;

/* The driver changes values of options even if it fails, so each attempt gets a copy. */
static CUresult attempt(const struct loading *loading, const void *image)
{
	void *values[MOST_OPTIONS];
	struct loading own = *loading;
	CUresult error;

	if (loading->count > MOST_OPTIONS)
		return loading->load(loading, image);
	if (loading->count)
		memcpy(values, loading->values, loading->count * sizeof *values);
	own.values = loading->values ? values : NULL;
	error = own.load(&own, image);
	if (!error && loading->count)
		memcpy(loading->values, values, loading->count * sizeof *values);
	return error;
}

static void *kept(struct span image)
{
	void *copy = malloc(image.size);

	return copy ? memcpy(copy, image.data, image.size) : NULL;
}

CUresult modules_load(const struct loading *loading, struct span image, int library,
		      CUresult (*original)(const void *closure), const void *closure)
{
	struct image offered = image.size ? notebook_offer(image.data, image.size, (struct message){0}, NULL) : (struct image){0};
	uint32_t number = offered.module;
	CUresult error;

	if (number)
		atomic_store(&used, 1);
	for (int i = 0; i < ATTEMPTS && offered.data; i++) {
		struct image tried = offered;

		error = attempt(loading, tried.data);
		offered = notebook_loaded(tried, error, NULL);
		if (error)
			continue;
		handles_set(&modules, *loading->result, number);
		/* The program may have asked the driver not to copy a library's image. */
		if (library && number < MOST)
			module_of[number] = (struct module){1, kept(image), NULL};
		else
			image_free(tried);
		return 0;
	}
	image_free(offered);
	error = original(closure);
	if (!error && atomic_load(&used))
		handles_set(&modules, *loading->result, number);
	return error;
}

void modules_of_library(Handle module, Handle library)
{
	if (atomic_load(&used))
		handles_set(&modules, module, handles_get(&modules, library));
}

void modules_function(Handle function, Handle module, const char *name)
{
	uint32_t of = module ? handles_get(&modules, module) : 0;
	uint32_t number = handles_get(&functions, function);

	if (!notebook_ring())
		return;
	atomic_store(&used, 1);
	pthread_mutex_lock(&naming);
	if (!number || number >= MOST || function_of[number].module != of || !function_of[number].name ||
	    strcmp(function_of[number].name, name)) {
		number = notebook_function(name, of);
		if (number && number < MOST)
			function_of[number] = (struct function){strdup(name), of};
		handles_set(&functions, function, number);
	}
	pthread_mutex_unlock(&naming);
}

void modules_same(Handle function, Handle kernel)
{
	if (atomic_load(&used))
		handles_set(&functions, function, handles_get(&functions, kernel));
}

uint32_t modules_number(Handle function)
{
	uint32_t number = handles_get(&functions, function);
	const char *name;

	if (!number && driver.function_name && !driver.function_name(&name, function)) {
		modules_function(function, NULL, name);
		number = handles_get(&functions, function);
	}
	return number;
}

static Handle original_of(struct module *module)
{
	pthread_mutex_lock(&loading_original);
	if (!module->original && module->image && driver.library_load)
		driver.library_load(&module->original, module->image, NULL, NULL, 0, NULL, NULL, 0);
	pthread_mutex_unlock(&loading_original);
	return module->original;
}

Handle modules_usable_library(Handle library)
{
	uint32_t number = handles_get(&modules, library);
	Handle original;

	if (!number || number >= MOST || !module_of[number].traced_library || api_reachable())
		return library;
	original = original_of(&module_of[number]);
	return original ? original : library;
}

Handle modules_usable_kernel(Handle kernel)
{
	uint32_t number = handles_get(&functions, kernel);
	uint32_t of = number && number < MOST ? function_of[number].module : 0;
	Handle original, found;

	if (!of || of >= MOST || !module_of[of].traced_library || api_reachable())
		return kernel;
	original = original_of(&module_of[of]);
	if (!original || !driver.library_kernel || driver.library_kernel(&found, original, function_of[number].name))
		return kernel;
	handles_set(&functions, found, number);
	return found;
}

/* In a forked child. Most of them run another program next, so unused tables are not touched. */
static void forget(void)
{
	if (!atomic_exchange(&used, 0))
		return;
	pthread_mutex_init(&loading_original, NULL);
	pthread_mutex_init(&naming, NULL);
	memset(&modules, 0, sizeof modules);
	memset(&functions, 0, sizeof functions);
	memset(module_of, 0, sizeof module_of);
	memset(function_of, 0, sizeof function_of);
}

__attribute__((constructor)) static void prepare(void)
{
	pthread_atfork(NULL, NULL, forget);
}
