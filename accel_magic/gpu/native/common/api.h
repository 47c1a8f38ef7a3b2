/* What the library of an API (CUDA's driver, OpenCL) provides to the common code. */
#ifndef ACCEL_API_H
#define ACCEL_API_H

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* Memory that programs in kernels and the notebook share. */
struct block {
	uint64_t address; /* for kernels */
	void *file;       /* mapping of the notebook's file */
	size_t size;
	void *memory; /* only for ALLOCATED */
	enum kept kept;
};

/* Find the API and prepare this thread: fills HELLO and its text; 0 if this process cannot be traced. Always followed by
 * api_introduced. */
int api_introduce(struct message *hello, char *text, size_t room);

/* All maps are placed, or introducing failed; 0 if tracing is not possible after all. */
int api_introduced(int placed);

/* Whether a module that is loaded now can access the maps. */
int api_reachable(void);

/* Place a block, in the device's memory or the host's; with `only_mapped`, the file itself. Returns the API's error. */
int api_place(struct block *block, int in_device, int only_mapped);
void api_free(struct block *block);

/* Before and after this thread copies maps; 0 if they are gone. */
int api_enter(void);
void api_leave(void);

/* Begin to copy the device's memory into its file; wait until all copies are complete. Both return the API's error. */
int api_copy(struct block *block);
int api_copied(void);

#endif
