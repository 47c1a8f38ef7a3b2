/* Memory in this process's context, shared by programs in its kernels and the notebook. */
#ifndef ACCEL_MAPS_H
#define ACCEL_MAPS_H

#include <stddef.h>

#include "driver.h"
#include "wire.h"

/* Reset the state, in a process with so many devices. */
void maps_begin(int devices);

/* The ring of launches, also after the trace; null if the process was never traced. */
void maps_ring_at(struct ring *ring);
struct ring *maps_ring(void);

/* Execute ALLOCATE or SHARE and answer; execute FREE. */
void maps_place(struct message asked, int descriptor);
void maps_take_back(Address address);

/* All maps are placed, in this context: start copying them periodically; 0 if that fails. */
int maps_keep(Handle context);

/* Copy the maps one last time, before their context is destroyed (1) or the process ends (2). */
void maps_end(int how);

/* The context with the maps; null if there is none. */
Handle maps_context(void);

/* Whether kernels in the current context can access the maps. */
int maps_reachable(void);

/* Map a file of the notebook and close its descriptor; null if that fails. */
void *maps_take_file(int descriptor, size_t size);

uint64_t now_ns(void);

#endif
