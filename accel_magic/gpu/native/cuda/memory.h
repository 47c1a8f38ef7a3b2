/* The context with the maps. */
#ifndef ACCEL_MEMORY_H
#define ACCEL_MEMORY_H

#include "driver.h"

/* Null if there is none. */
Handle memory_context(void);

#endif
