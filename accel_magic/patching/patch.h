/* SPDX-License-Identifier: Apache-2.0 */
/* How a function is patched: made by recipes.py, used by patch.c, in children too. */
#ifndef ACCEL_MAGIC_PATCHING_PATCH_H
#define ACCEL_MAGIC_PATCHING_PATCH_H

#include <stdint.h>

enum { RECIPE_CODE = 88, MOST_FIXUPS = 8, MOST_BOUNDARIES = 4 };

enum { NOT_PATCHED, PATCHED, NO_PLACE };

/* A library whose pages are replaced. */
struct patched_library {
	uint64_t base;	     /* where address 0 of its file is */
	uint64_t start, end; /* its code */
	uint64_t offset;     /* of `start` in the file */
	int32_t file;	     /* descriptor */
	int32_t reserved;
};

/* 32 bits of moved code that depend on addresses; see `Fixup` in decode.py. */
struct fixup {
	int64_t target;
	uint8_t at, end, upper, reserved[5];
};

/* The displaced instructions of a function. */
struct recipe {
	int64_t address; /* in its file */
	uint32_t library;
	uint8_t code_bytes, fixup_count, boundary_count, reserved;
	uint8_t boundaries[MOST_BOUNDARIES], places[MOST_BOUNDARIES];
	uint8_t code[RECIPE_CODE];
	struct fixup fixups[MOST_FIXUPS];
};

/* Which function of the process it is, and whether its hits are only counted. */
struct request {
	uint32_t function;
	uint32_t counts;
};

#endif
