/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The ioctls of the lab accelerator's render node. In Python: accel_magic/lab/accelerator/uapi.py.
 *
 * Fences are DRM's own synchronisation objects (DRM_IOCTL_SYNCOBJ_*).
 */
#ifndef ACCEL_LAB_UAPI_H
#define ACCEL_LAB_UAPI_H

#ifdef __KERNEL__
#include <drm/drm.h>
#else
#include "drm_calls.h" /* Debian's headers for programs lack DRM's */
#endif

#include "accel_lab_access.h"

#define ACCEL_LAB_MOST_BLOCKS (1 << 18) /* of 2 MiB; likewise chunks */
#define ACCEL_LAB_MOST_TENANTS (1 << 10)
#define ACCEL_LAB_MOST_US 60000000
#define ACCEL_LAB_RINGS 3
#define ACCEL_LAB_SHARED 2 /* the ring whose engine is shared by time slices */

/* Give this file a new device memory. */
struct accel_lab_memory {
	__u32 chunks; /* of 2 MiB, which hold one block each */
	__u32 blocks; /* that accesses may name */
	__u32 observe; /* 1: the policy hears of every access; 0: of faults only */
	__u32 tenants; /* number of processes; 0: only the caller */
	__u64 processes; /* __u32[tenants]: process ids; 0: the caller */
};

/* Access pages in turn. A signal ends it early: done is then less than count. */
struct accel_lab_replay {
	__u64 pages; /* __u32[count]: block * 512 + page in the block */
	__u64 tenants; /* __u16[count]; 0: the first tenant makes all accesses */
	__u64 decisions; /* struct accel_lab_decision[count], written; 0: none */
	__u32 count;
	__u32 done; /* out, also after an error */
};

/*
 * The memory can be mapped (MAP_SHARED, offset 0): the first touch of a page that is not in device memory is an access,
 * which faults. What is there is not heard of, and what is evicted faults again. An access that a mapping made:
 */
struct accel_lab_fault {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u32 page;
	struct accel_lab_decision decision;
};

/* Take the oldest records. What did not fit between two calls is lost, and counted. */
struct accel_lab_take {
	__u64 records; /* struct accel_lab_fault[count] or struct accel_lab_job[count], written */
	__u32 count;
	__u32 taken; /* out */
	__u64 lost; /* out: since the beginning */
};

enum accel_lab_priority {
	ACCEL_LAB_LOW,
	ACCEL_LAB_NORMAL,
	ACCEL_LAB_HIGH,
	ACCEL_LAB_PRIORITIES,
};

#define ACCEL_LAB_HANG 1 /* the job never ends by itself: it times out */

struct accel_lab_submit {
	__u32 ring;
	__u32 priority;
	__u32 duration_us;
	__u32 flags;
	__u32 wait; /* syncobj whose fence the job waits for; 0: none */
	__u32 signal; /* syncobj that gets the job's fence; 0: none */
	__u64 cookie; /* of the job's record; 0: none is made */
};

/* A job that ended; times are those of CLOCK_MONOTONIC. */
struct accel_lab_job {
	__u64 cookie;
	__u64 queued_ns;
	__u64 started_ns; /* when it first had the engine */
	__u64 ended_ns;
	__u64 busy_ns; /* for how long it had the engine */
	__u32 slices; /* how often it got it */
	__s32 error; /* 0, or a negative errno */
};

/* This file's task (time-slice group), as the scheduling policy left it; all written. */
struct accel_lab_task {
	__u64 tsg_id;
	__u64 timeslice_us;
	__u32 interleave;
	__u32 rejected; /* by the policy: the file cannot submit jobs */
	__u32 refused; /* requests of the policy about this task that were not valid */
	__u32 preempted; /* how often a policy took the engine away */
};

/* Ask for a time slice, as CUDA does for a new context; the policy may give another. */
struct accel_lab_timeslice {
	__u64 timeslice_us; /* 1 to ACCEL_LAB_MOST_US; out: what the task has now */
};

#define DRM_ACCEL_LAB_MEMORY 0
#define DRM_ACCEL_LAB_REPLAY 1
#define DRM_ACCEL_LAB_COUNTS 2
#define DRM_ACCEL_LAB_SUBMIT 3
#define DRM_ACCEL_LAB_TASK 4
#define DRM_ACCEL_LAB_FAULTS 5
#define DRM_ACCEL_LAB_JOBS 6
#define DRM_ACCEL_LAB_TIMESLICE 7

#define DRM_IOCTL_ACCEL_LAB_MEMORY DRM_IOW(DRM_COMMAND_BASE + DRM_ACCEL_LAB_MEMORY, struct accel_lab_memory)
#define DRM_IOCTL_ACCEL_LAB_REPLAY DRM_IOWR(DRM_COMMAND_BASE + DRM_ACCEL_LAB_REPLAY, struct accel_lab_replay)
#define DRM_IOCTL_ACCEL_LAB_COUNTS DRM_IOR(DRM_COMMAND_BASE + DRM_ACCEL_LAB_COUNTS, struct accel_lab_counts)
#define DRM_IOCTL_ACCEL_LAB_SUBMIT DRM_IOW(DRM_COMMAND_BASE + DRM_ACCEL_LAB_SUBMIT, struct accel_lab_submit)
#define DRM_IOCTL_ACCEL_LAB_TASK DRM_IOR(DRM_COMMAND_BASE + DRM_ACCEL_LAB_TASK, struct accel_lab_task)
#define DRM_IOCTL_ACCEL_LAB_FAULTS DRM_IOWR(DRM_COMMAND_BASE + DRM_ACCEL_LAB_FAULTS, struct accel_lab_take)
#define DRM_IOCTL_ACCEL_LAB_JOBS DRM_IOWR(DRM_COMMAND_BASE + DRM_ACCEL_LAB_JOBS, struct accel_lab_take)
#define DRM_IOCTL_ACCEL_LAB_TIMESLICE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_ACCEL_LAB_TIMESLICE, struct accel_lab_timeslice)

#endif
