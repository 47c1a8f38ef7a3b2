/* Memory in this process's context that programs in its kernels share with the notebook. */
#ifndef ACCEL_MAPS_H
#define ACCEL_MAPS_H

#include <stddef.h>

#include "driver.h"
#include "wire.h"

/* Start anew in this process, which sees so many devices. */
void maps_begin(int devices);

/* Where launches go, also after the trace; null where there was none. */
void maps_ring_at(struct ring *ring);
struct ring *maps_ring(void);

/* Do what an ALLOCATE or a SHARE asks for, and answer; and what a FREE does. */
void maps_place(struct message asked, int descriptor);
void maps_take_back(Address address);

/* The maps are complete, in this context: copy them now and then; 0 when that cannot be. */
int maps_keep(Handle context);

/* Copy the maps one last time: the context that has them goes (1), or the process (2). */
void maps_end(int how);

/* The context that has the maps; null while there is none. */
Handle maps_context(void);

/* Whether kernels in the current context find the maps. */
int maps_reachable(void);

/* Map a file of the notebook and close it; null when that fails. */
void *maps_take_file(int descriptor, size_t size);

uint64_t now_ns(void);

#endif
