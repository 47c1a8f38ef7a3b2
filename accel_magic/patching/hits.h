/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hits of patched functions: what hits.c, patch.c and entry.S share, and what trace.py sets through ctypes. In step with
 * library.py.
 */
#ifndef ACCEL_MAGIC_PATCHING_HITS_H
#define ACCEL_MAGIC_PATCHING_HITS_H

#define THREADS 256	      /* as MOST_SLOTS in area.h */
#define CALLS_PER_THREAD 128 /* measured calls in progress; the first is never used: its thunk is a page's header */
#define THUNK_BYTES 16

#ifndef __ASSEMBLER__

#include "area.h"

enum {
	MOST_FUNCTIONS = 1 << 16,
	MOST_SAVED = 16, /* values that a measured call keeps for its return */
	MOST_VALUES = 16, /* of an expression */
	MOST_OPS = 1 << 16, /* of all programs of a trace */
	MOST_PAYLOAD = 1024, /* bytes */
	STRING_BYTES = 64,
};

/* What is done at a hit. */
enum { UNUSED, COUNTED, ENTERED, RETURNED, MEASURED };

/* Operations of a program on a stack of 64-bit values: expressions of filters, columns to record. */
enum {
	OP_END,
	OP_CONSTANT, OP_REGISTER, OP_STACK_POINTER, OP_RETURNED, OP_DURATION, OP_PID, OP_TID, OP_CPU, OP_SAVED, OP_COMM_IS,
	OP_USER_STACK, OP_ENTERED_STACK, OP_PYTHON_STACK,
	OP_READ, /* a value of `size` bytes at an address; negative: signed */
	OP_NEGATE, OP_INVERT, OP_NOT,
	OP_ADD, OP_SUBTRACT, OP_MULTIPLY, OP_AND, OP_OR, OP_XOR, OP_LEFT, OP_RIGHT, OP_RIGHT_SIGNED,
	OP_DIVIDE, OP_DIVIDE_SIGNED, OP_MODULO, OP_MODULO_SIGNED,
	OP_EQUAL, OP_UNEQUAL, OP_LESS, OP_LESS_SIGNED, OP_LESS_EQUAL, OP_LESS_EQUAL_SIGNED, OP_BOTH, OP_EITHER,
	OP_CHOOSE, /* of three values: the second if the first is true, else the third */
	OP_TEST, /* ends the program unless the value is true */
	OP_SAVE, OP_PUT, OP_PUT_STRING, OP_SUM,
	OP_COUNT,
};

struct op {
	uint8_t code;
	int8_t size;
	uint16_t at; /* a register, a saved value, a position in the payload */
	uint32_t reserved;
	uint64_t value;
};

/* A function in the current trace; `index` is its place in the counters and histograms. */
struct point {
	const struct op *tests; /* at the entry: filter, values to keep; NULL: none */
	const struct op *fills; /* then, or at the return: filter, payload, sum; NULL: none */
	uint64_t function;
	uint32_t index;
	uint32_t generation; /* number of the trace; other traces ignore it */
	uint8_t does, records, counts_at_return, reserved;
	uint16_t id; /* in records */
	uint16_t reserved_end;
};

extern struct point accel_magic_points[MOST_FUNCTIONS] __attribute__((visibility("hidden")));
extern struct control *accel_magic_control __attribute__((visibility("hidden")));
extern char accel_magic_thunks[] __attribute__((visibility("hidden")));
void accel_magic_entry(void) __attribute__((visibility("hidden")));
/* Offset of a thread's pointer to its counters from what `accel_magic_self_offset` is the place of. */
int accel_magic_self_offset(void) __attribute__((visibility("hidden")));
int accel_magic_counters_offset(void) __attribute__((visibility("hidden")));

#endif
#endif
