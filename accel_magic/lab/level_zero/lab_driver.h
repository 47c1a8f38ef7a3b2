/* SPDX-License-Identifier: Apache-2.0 */
/* libze_lab_npu.so: a Level Zero driver for the NPU lab. It makes the same ioctls on the real intel_vpu as Intel's
 * driver, but computes nothing: the emulated NPU executes no commands, so none are written.
 *
 * lab_device.c: driver, device, context. lab_memory.c: buffers. lab_list.c: command lists. lab_queue.c: queues and
 * fences. lab_tables.c: function tables for the loader.
 */
#ifndef ACCEL_MAGIC_LAB_DRIVER_H
#define ACCEL_MAGIC_LAB_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../npu/npu_uapi.h"
#include "ze_api.h"

#define DRIVER_NAME "NPU lab"

#define NPU_PARAM_PREEMPT_BUFFER_SIZE 14
#define NPU_BUFFER_PREEMPTION NPU_BO_WC
#define NPU_BUFFER_COMMANDS NPU_BO_MAPPABLE

struct drm_capability {
	uint64_t which, value;
};
#define DRM_CAPABILITY_PRIME 5
#define DRM_IOCTL_CAPABILITY _IOWR('d', 0x0c, struct drm_capability)

struct ze_driver {
	uint32_t devices;
};

struct ze_device {
	char path[32];
	uint32_t id, revision, contexts, clock_mhz;
	uint64_t preemption_size;
	bool dma_range, queues; /* capabilities of this kernel's intel_vpu */
};

/* Memory visible to the NPU, reference counted. */
struct buffer {
	struct buffer *next; /* in its context */
	int fd;
	atomic_int holders;
	uint32_t handle;
	void *memory;        /* NULL: not mapped */
	size_t size;
};

struct ze_context {
	const struct ze_device *device;
	int fd;
	pthread_mutex_t lock;    /* guards the list */
	struct buffer *buffers;  /* allocated with zeMemAlloc* */
};

#define MOST_BUFFERS 64 /* maximum in a command list */

struct ze_list {
	struct ze_context *context;
	struct buffer *used[MOST_BUFFERS];
	uint32_t uses;
	uint32_t appended;       /* number of commands */
	struct buffer *commands; /* NULL: not closed, or empty */
};

/* Submitted jobs: the command buffers to wait for. */
struct jobs {
	struct buffer **commands;
	uint32_t count;
};

struct ze_queue {
	struct ze_context *context;
	uint32_t id;               /* 0: the kernel has no command queues */
	uint32_t priority;
	bool synchronous;
	struct buffer *preemption; /* NULL: not created yet */
	pthread_mutex_t lock;      /* guards the following fields */
	struct jobs jobs;          /* submitted without a fence */
	struct ze_fence *fences;
};

struct ze_fence {
	struct ze_fence *next; /* in its queue */
	struct ze_queue *queue;
	bool signaled;
	struct jobs jobs;
};

#define ZE_DECLARE(name, ...) name##_type lab_##name;
ZE_FUNCTIONS(ZE_DECLARE)
#undef ZE_DECLARE

/* Environment variable with which a load requests a fault from the lab's device. It holds four numbers, separated by
 * spaces: kind and argument as in npu_uapi.h, every Kth, and the Jth of the process's submissions.
 */
#define LAB_FAULT "ACCEL_MAGIC_NPU_FAULT"

extern struct ze_device lab_device;
int open_device(const struct ze_device *device);
struct buffer *make_buffer(struct ze_context *context, size_t size, uint32_t flags);
struct buffer *find_buffer(struct ze_context *context, const void *address);
struct buffer *hold(struct buffer *buffer);
void release(struct buffer *buffer);

#endif
