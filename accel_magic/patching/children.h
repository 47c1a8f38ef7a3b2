/* SPDX-License-Identifier: Apache-2.0 */
/* What a program that is started needs to patch itself: made by children.py, read by children.c. */
#ifndef ACCEL_MAGIC_PATCHING_CHILDREN_H
#define ACCEL_MAGIC_PATCHING_CHILDREN_H

#include "hits.h"
#include "patch.h"

#define CHILD_MAGIC 0x3174636863636101ull

struct child_header {
	uint64_t magic;
	uint8_t token[16]; /* as in the memory of the counters */
	uint32_t generation, libraries, functions, ops;
};

/* A file, as stat(2) describes it. */
struct child_library {
	uint64_t device, inode, size;
};

struct child_function {
	struct recipe recipe;
	uint8_t original[16]; /* its first bytes */
	int32_t tests, fills; /* first operation of its programs; -1: none */
	uint32_t number;
	uint16_t id;
	uint8_t does, records, counts_at_return, counts;
	uint8_t reserved[6];
};

/* In hits.c and patch.c. */
struct op *accel_magic_patching_programs(void);
int accel_magic_patching_patch(const struct patched_library *all, const struct recipe *recipes, const struct request *requests,
			       size_t count, uint8_t *results);
int accel_magic_patching_join(struct control *control) __attribute__((visibility("hidden")));
void accel_magic_join_parent(void) __attribute__((visibility("hidden")));

#endif
