#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>

struct driver driver;
void *(*real_dlsym)(void *, const char *);

void find_dlsym(void)
{
	/* Versions of libc's dlsym: since 2.34, and the first ones of x86-64 and aarch64. */
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};

	for (unsigned i = 0; i < sizeof versions / sizeof *versions && !real_dlsym; i++)
		real_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
}

void *driver_function(const char *name)
{
	static void *library;

	if (!real_dlsym)
		return NULL;
	if (!library)
		library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	return library ? real_dlsym(library, name) : NULL;
}

int driver_find(void)
{
	int complete = 1;

#define FIND(name, symbol, arguments) \
	if (!driver.name)             \
		driver.name = (CUresult(*) arguments)driver_function(#symbol);
#define REQUIRE(name, symbol, arguments) complete &= driver.name != NULL;
	DRIVER_CALLS(FIND)
	OPTIONAL_CALLS(FIND)
	DRIVER_CALLS(REQUIRE)
#undef FIND
#undef REQUIRE
	return complete;
}
