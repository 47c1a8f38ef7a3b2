/* SPDX-License-Identifier: Apache-2.0 */
/* libze_lab_npu.so: a Level Zero driver for the NPU lab. It makes the same ioctls on the real intel_vpu as Intel's
 * driver. Its command buffers are for the lab's device (job_format.h), which copies and has models computed by OpenVINO
 * on the host's CPU.
 *
 * lab_device.c: driver, device, context. lab_memory.c: buffers. lab_list.c: command lists. lab_event.c: events.
 * lab_queue.c: queues and fences. lab_graph.c, lab_arguments.c, lab_profiling.c: the NPU extensions. lab_tables.c:
 * function tables for the loader.
 */
#ifndef ACCEL_MAGIC_LAB_DRIVER_H
#define ACCEL_MAGIC_LAB_DRIVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../npu/npu_uapi.h"
#include "job_format.h"
#include "npu_api.h"

#define DRIVER_NAME "NPU lab"
#define DRIVER_VERSION 1

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
	char name[32]; /* "accel0" */
	uint32_t id, revision, contexts, clock_mhz, tiles;
	uint64_t preemption_size;
	bool dma_range, queues; /* capabilities of this kernel's intel_vpu */
};

/* Memory visible to the NPU, reference counted. */
struct buffer {
	struct buffer *next; /* in its context */
	int fd;
	atomic_int holders;
	uint32_t handle;
	uint64_t address;    /* in the NPU's address space */
	void *memory;        /* NULL: not mapped */
	size_t size;
};

struct ze_context {
	const struct ze_device *device;
	int fd;
	pthread_mutex_t lock;    /* guards the following fields */
	struct buffer *buffers;  /* allocated with zeMemAlloc* */
	struct ze_queue *queue;  /* for the driver's own jobs; NULL: not created yet */
	uint32_t graphs;         /* number of the newest */
};

#define MOST_BUFFERS 256 /* maximum in a command list */

struct ze_list {
	struct ze_context *context;
	struct ze_queue *queue;  /* of an immediate list, which executes each command when it is appended; else NULL */
	struct buffer *used[MOST_BUFFERS];
	uint32_t uses;
	struct job_header *job;  /* header and commands; NULL: empty */
	bool closed, changed;    /* changed: not in the command buffer yet */
	char graph[NPU_NAME];    /* name of the graph that it executes; "" if none */
	struct buffer *commands; /* NULL: never closed, or empty */
};

struct ze_event_pool {
	struct ze_context *context;
	struct buffer *buffer;
	uint32_t events;
};

struct ze_event {
	struct buffer *buffer;   /* its pool's */
	volatile uint64_t *word; /* in the buffer; 1: set */
};

struct argument {
	const struct job_argument *told;
	const char *name, *friendly_name, *names; /* names: one after the other, each ending with a zero byte */
	uint64_t address;                         /* of its value; 0: none */
};

struct npu_graph {
	struct ze_context *context;
	uint32_t id, arguments;
	bool profiled;
	void *blob;              /* NPU memory */
	size_t blob_size;
	char *described;         /* the answer to LOAD, which holds the following */
	struct argument *argument;
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

#define ZE_DECLARE(name, ...) ze_result lab_##name(__VA_ARGS__);
ZE_FUNCTIONS(ZE_DECLARE)
MUTABLE_FUNCTIONS(ZE_DECLARE)
GRAPH_FUNCTIONS(ZE_DECLARE)
PROFILING_FUNCTIONS(ZE_DECLARE)
QUEUE_FUNCTIONS(ZE_DECLARE)
CONTEXT_FUNCTIONS(ZE_DECLARE)
#undef ZE_DECLARE

typedef void (*entry)(void);

/* Environment variable with which a load requests a fault from the lab's device. It holds four numbers, separated by
 * spaces: kind and argument as in npu_uapi.h, every Kth, and the Jth of the process's submissions.
 */
#define LAB_FAULT "ACCEL_MAGIC_NPU_FAULT"

#define SLOT_SIZE (2 * sizeof(uint64_t) + JOB_MOST_LAYERS * sizeof(struct npu_layer)) /* for layers' times */

extern struct ze_device lab_device;
int open_device(const struct ze_device *device);

int64_t now_ns(void);
int64_t deadline_after(uint64_t timeout_ns);

struct buffer *make_buffer(struct ze_context *context, size_t size, uint32_t flags);
struct buffer *find_buffer(struct ze_context *context, const void *address);
struct buffer *hold(struct buffer *buffer);
void release(struct buffer *buffer);
uint64_t memory_size(void);
uint64_t memory_used(struct ze_context *context);

ze_result append(struct ze_list *list, enum job_kind kind, uint32_t graph, uint32_t count, const struct job_span *spans);
ze_result append_between(struct ze_list *list, enum job_kind kind, uint32_t graph, uint32_t count,
			 const struct job_span *spans, ze_event signal, uint32_t waits_count, ze_event *waits);
ze_result span_of(struct ze_context *context, const void *address, size_t size, struct job_span *span);

/* Does nothing: probes tell by its argument which graph the next job of this thread executes. */
void npu_lab_inference(const char *graph);

/* Execute one command of the driver's own, and wait for it. */
ze_result run_command(struct ze_context *context, enum job_kind kind, uint32_t graph, uint32_t count,
		      const struct job_span *spans);

bool read_graph(struct npu_graph *graph, size_t size);

extern bool lists_can_change; /* whether the loader has the functions of MUTABLE_LISTS_EXTENSION */
extern const entry graph_table[], profiling_table[], queue_extension_table[], context_extension_table[];

#endif
