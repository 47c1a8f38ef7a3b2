/* Memory of this process that programs in its kernels share with the notebook. */
#ifndef ACCEL_MAPS_H
#define ACCEL_MAPS_H

#include <stddef.h>

#include "wire.h"

/* Reset the state. */
void maps_begin(void);

/* The ring of launches, also after the trace; null if the process was never traced. */
void maps_ring_at(struct ring *ring);
struct ring *maps_ring(void);

/* Execute ALLOCATE or SHARE and answer; execute FREE. */
void maps_place(struct message asked, int descriptor);
void maps_take_back(uint64_t address);

/* All maps are placed: start copying them periodically; 0 if that fails. */
int maps_keep(void);

/* Copy the maps one last time, before their context is destroyed (1) or the process ends (2). */
void maps_end(int how);

/* Map a file of the notebook and close its descriptor; null if that fails. */
void *maps_take_file(int descriptor, size_t size);

uint64_t now_ns(void);

#endif
