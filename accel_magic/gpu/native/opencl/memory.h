/* The traced device, and the memory of maps that its kernels access. */
#ifndef ACCEL_MEMORY_H
#define ACCEL_MEMORY_H

#include "opencl.h"

/* The next module is for this context; whether it has the traced device. */
int memory_choose(Handle context);

/* The device of the maps; null before they are placed. */
Handle memory_device(void);

/* Tell a kernel with programs in it which memory it accesses. */
void memory_attach(Handle kernel);

/* Set what memory a kernel with programs in it accesses, by the user's choice, and the maps. */
int memory_set_access(Handle kernel, unsigned what, size_t size, const void *value);

#endif
