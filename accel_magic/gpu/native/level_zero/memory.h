/* The traced device, and the memory of maps that its kernels access. */
#ifndef ACCEL_MEMORY_H
#define ACCEL_MEMORY_H

#include "level_zero.h"

/* The next module is for this device in this context; whether that is the traced device. */
int memory_choose(Handle context, Handle device);

/* The context with the maps; null if there is none. */
Handle memory_context(void);

#endif
