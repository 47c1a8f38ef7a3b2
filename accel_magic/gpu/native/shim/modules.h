/* Modules, libraries and functions of this process: which of them the notebook knows, and what they were originally. */
#ifndef ACCEL_MODULES_H
#define ACCEL_MODULES_H

#include "driver.h"
#include "images.h"
#include "notebook.h"

/* One way to load an image: `load` gets it with the driver's other arguments. */
struct loading {
	Handle *result;
	int *options;
	void **values;
	unsigned count;
	int *library_options;
	void **library_values;
	unsigned library_count;
	CUresult (*load)(const struct loading *loading, const void *image);
};

/* Load what the notebook makes of an image, or else the image itself by `original`. */
CUresult modules_load(const struct loading *loading, struct span image, int library,
		      CUresult (*original)(const void *closure), const void *closure);

/* A module that a library has in the current context. */
void modules_of_library(Handle module, Handle library);

/* Remember a function's name; of a kernel of a library or a function of a module. */
void modules_function(Handle function, Handle module, const char *name);

/* Another handle of the same kernel. */
void modules_same(Handle function, Handle kernel);

/* A function's number for the notebook; 0 for one without a name. */
uint32_t modules_number(Handle function);

/* What to use instead where the maps cannot be reached: the same, or the original. */
Handle modules_usable_kernel(Handle kernel);
Handle modules_usable_library(Handle library);

#endif
