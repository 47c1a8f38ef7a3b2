/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* What accesses of device memory did. In Python: accel_magic/lab/accelerator/uapi.py and accel_magic/policies/model_engine.py. */
#ifndef ACCEL_LAB_ACCESS_H
#define ACCEL_LAB_ACCESS_H

#define ACCEL_LAB_PAGES_PER_BLOCK 512

enum accel_lab_outcome {
	ACCEL_LAB_HIT,
	ACCEL_LAB_FAULT, /* other pages of the block were in device memory */
	ACCEL_LAB_MISS, /* nothing of the block was */
};

/* What happened with one access. */
struct accel_lab_decision {
	__s32 evicted; /* the block that was evicted; -1: none */
	__u16 pages_in; /* migrated to the device, with the page that faulted */
	__u16 pages_out;
	__u8 outcome;
	__u8 refused; /* requests of the policy that were not valid, at most 255 */
	__u16 tenant; /* that made the access */
};

/* Totals of a memory. */
struct accel_lab_counts {
	__u64 accesses;
	__u64 faults; /* pages that were not in device memory */
	__u64 misses; /* faults in blocks of which nothing was */
	__u64 evictions;
	__u64 pages_in;
	__u64 pages_out;
	__u64 refused;
};

#endif
