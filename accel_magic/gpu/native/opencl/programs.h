/* Programs, and their versions with programs of the trace. */
#ifndef ACCEL_PROGRAMS_H
#define ACCEL_PROGRAMS_H

#include "../common/notebook.h"
#include "opencl.h"

/* What is known of a program. */
struct program {
	Handle traced;   /* its version with programs of the trace; null if there is none */
	uint32_t module; /* its number at the notebook; 0 if it was not sent */
	int uses_lanes;  /* whether the programs look at all lanes of a sub-group */
	enum left left;  /* why it was not sent; 0 if it was, or for no special reason */
};

struct program programs_find(Handle program);

#endif
