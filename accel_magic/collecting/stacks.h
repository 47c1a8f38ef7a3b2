/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of tasks: each distinct stack is stored once in the shared memory. */
#ifndef ACCEL_MAGIC_COLLECTING_STACKS_H
#define ACCEL_MAGIC_COLLECTING_STACKS_H

#include "area.h"

/* Where a task was reported from. */
struct place {
	const void *caller;	/* return address in the code that called the collector */
	unsigned python_frames; /* innermost Python frames that belong to the tool; 0 for tasks of libraries */
	const void *function;	/* that has just been called, the innermost frame; NULL: the caller is */
};

/* Whether memory can be read: that of frames of Python, if a hit may be between any two instructions. */
int can_read(uint64_t address, unsigned size);

/* Leaves out frames in this range: the places to which calls return that are measured by patching (patching/entry.S). */
void skip_frames(uint64_t start, uint64_t end);

/* Loads what walking needs, so that the first task does not have to wait for it. */
void prepare_stacks(void);

/*
 * Key of the calling thread's native stack from `place->caller` outward, walked by its unwinding tables. Without the
 * library for that (libgcc_s) it is only the caller, and counts in `not_walked`.
 */
uint64_t user_stack(struct stack *table, uint32_t size, int pid, const struct place *place,
		    volatile uint32_t *not_walked);

/* Key of the calling thread's Python stack; 0 if it has none. Only for the process that `layout` describes. */
uint64_t python_stack(struct stack *table, uint32_t size, int pid, const struct python_layout *layout,
		      const struct place *place);

#endif
