/* Standing in front of a library: programs find it by linking against it, or with dlopen and dlsym; both lead here. */
#ifndef ACCEL_PRELOAD_H
#define ACCEL_PRELOAD_H

#include <stdatomic.h>

#define SHOWN __attribute__((visibility("default")))

struct wrapper {
	const char *name;
	void *mine;
	_Atomic(void *) real;
};

/* Provided by the API: the wrapped functions, with their library's name and the beginning of its functions' names; what is
 * called instead of a function that the library lacks. */
extern struct wrapper preload_wrappers[];
extern const int preload_count;
extern const char preload_library[];
extern const char preload_owner[]; /* in words: "a CUDA driver" */
extern const char preload_prefix[];
extern void *const preload_missing;

/* Return a function of the library itself; null if there is none. */
void *preload_function(const char *name);

/* Return the library's own function for a wrapper's place; `preload_missing` if it lacks it. */
void *preload_real(int at);

/* The place of a wrapper; -1 if the function is not wrapped. */
int preload_place(const char *name);

#endif
