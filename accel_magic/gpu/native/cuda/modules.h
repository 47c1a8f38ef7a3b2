/* Modules, libraries and functions of this process: their numbers at the notebook, and original libraries. */
#ifndef ACCEL_MODULES_H
#define ACCEL_MODULES_H

#include "driver.h"
#include "images.h"
#include "../common/notebook.h"

/* A call that loads an image: `load` gets the image and the driver's other arguments. */
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

/* Load the notebook's version of an image, or else the unchanged image with `original`. */
CUresult modules_load(const struct loading *loading, struct span image, int library,
		      CUresult (*original)(const void *closure), const void *closure);

/* Record a library's module in the current context. */
void modules_of_library(Handle module, Handle library);

/* Record the name of a module's function or a library's kernel. */
void modules_function(Handle function, Handle module, const char *name);

/* Record another handle of the same kernel. */
void modules_same(Handle function, Handle kernel);

/* Return a function's number at the notebook; 0 if it has no name. */
uint32_t modules_number(Handle function);

/* Return the same handle, or that of the original if kernels cannot access the maps. */
Handle modules_usable_kernel(Handle kernel);
Handle modules_usable_library(Handle library);

#endif
