#define _GNU_SOURCE
#include "preload.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../common/maps.h"

/* libc's own dlsym. */
static void *(*real_dlsym)(void *, const char *);

__attribute__((constructor)) static void find_dlsym(void)
{
	/* Versions of libc's dlsym: since 2.34, and the first ones of x86-64 and aarch64. */
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};

	for (unsigned i = 0; i < sizeof versions / sizeof *versions && !real_dlsym; i++)
		real_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
}

void *preload_function(const char *name)
{
	static void *library;

	if (!real_dlsym)
		return NULL;
	if (!library)
		library = dlopen(preload_library, RTLD_LAZY | RTLD_NOLOAD);
	return library ? real_dlsym(library, name) : NULL;
}

void *preload_real(int at)
{
	struct wrapper *wrapper = &preload_wrappers[at];
	void *found = atomic_load_explicit(&wrapper->real, memory_order_relaxed);

	if (!found && (found = preload_function(wrapper->name)))
		atomic_store_explicit(&wrapper->real, found, memory_order_relaxed);
	return found ? found : preload_missing;
}

int preload_place(const char *name)
{
	for (int at = 0; at < preload_count; at++)
		if (!strcmp(preload_wrappers[at].name, name))
			return at;
	return -1;
}

static void *of_library(void *handle, int at)
{
	char nowhere[128];
	void *found;

	if (preload_real(at) != preload_missing)
		return preload_wrappers[at].mine;
	found = real_dlsym(handle, preload_wrappers[at].name);
	if (found != preload_wrappers[at].mine)
		return found;
	/* There is no such library: look up a name that does not exist, so that dlerror reports it. */
	snprintf(nowhere, sizeof nowhere, "%s of %s", preload_wrappers[at].name, preload_owner);
	return real_dlsym(handle, nowhere);
}

/* The last call must be a tail call: the result depends on the caller's address. */
SHOWN void *dlsym(void *handle, const char *name)
{
	int at;

	if (!real_dlsym)
		find_dlsym();
	if (name[0] == preload_prefix[0] && name[1] == preload_prefix[1] && handle != RTLD_NEXT &&
	    (at = preload_place(name)) >= 0)
		return of_library(handle, at);
	return real_dlsym(handle, name);
}

/* Programs that end without their exit handlers, like Python's workers. */
#define LEAVING(name)                                                                           \
	SHOWN __attribute__((noreturn)) void name(int status)                                    \
	{                                                                                        \
		void (*leave)(int) = (void (*)(int))real_dlsym(RTLD_NEXT, #name);                \
                                                                                                 \
		maps_end(2);                                                                     \
		if (leave)                                                                       \
			leave(status);                                                           \
		__builtin_trap();                                                                \
	}

LEAVING(_exit)
LEAVING(_Exit)
