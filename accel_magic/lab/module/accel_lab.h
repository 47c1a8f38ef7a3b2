/* SPDX-License-Identifier: GPL-2.0 */
#ifndef ACCEL_LAB_H
#define ACCEL_LAB_H

#include <drm/gpu_scheduler.h>
#include <linux/dma-fence.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/mutex.h>

#include "gpu_ext.h"
#include "gpu_memory.h"

struct drm_file;
struct seq_file;

/* hooks.c: policies. Each hook returns the policy's answer, or 0 (the default) if no policy has it; gpu_memory.h
 * declares those about memory. */

struct accel_lab_request {
	bool attempted;
	bool conflict; /* two different ones were made */
	u64 value;
};

/* ctx is all that the policy sees. */
struct accel_lab_task_request {
	struct nv_gpu_task_init_ctx ctx;
	struct accel_lab_request timeslice_us;
	struct accel_lab_request interleave;
};

struct accel_lab_timeslice_request {
	struct nv_gpu_timeslice_control_ctx ctx;
	struct accel_lab_request timeslice_us;
};

int accel_lab_hooks_register(void);
void accel_lab_hooks_show(struct seq_file *out);
int accel_lab_task_init(struct nv_gpu_task_init_ctx *ctx);
int accel_lab_bind(struct nv_gpu_bind_ctx *ctx);
int accel_lab_task_destroy(struct nv_gpu_task_destroy_ctx *ctx);
int accel_lab_timeslice_control(struct nv_gpu_timeslice_control_ctx *ctx);

/* records.c: records that wait until somebody takes them. */

struct records {
	spinlock_t lock; /* also taken in interrupts */
	void *at; /* NULL: none are made */
	u32 size; /* of one */
	u32 first;
	u32 count;
	u64 lost;
};

void accel_lab_records_init(struct records *records, u32 size);
int accel_lab_records_start(struct records *records);
void accel_lab_records_add(struct records *records, const void *record);
int accel_lab_records_take(struct records *records, struct accel_lab_take *take);
void accel_lab_records_free(struct records *records);

/* memory.c: device memory. Mappings of it hold references. */

struct memory;

struct memory *accel_lab_memory_create(const struct accel_lab_memory *wanted);
void accel_lab_memory_get(struct memory *memory);
void accel_lab_memory_put(struct memory *memory);
int accel_lab_memory_replay(struct memory *memory, struct accel_lab_replay *replay);
int accel_lab_memory_map(struct memory *memory, struct vm_area_struct *vma);
int accel_lab_memory_faults(struct memory *memory, struct accel_lab_take *take);
void accel_lab_memory_counts(struct memory *memory, struct accel_lab_counts *counts);
void accel_lab_memory_show(struct seq_file *out);

/* engine.c: jobs. */

struct accel_lab_ring_counts {
	atomic64_t queued;
	atomic64_t run;
	atomic64_t done;
	atomic64_t timed_out;
	atomic64_t cancelled; /* never run, or not to their end, because their file was closed */
};

struct ring;

/* A job on a ring. The fence is first, because it is freed with it. */
struct run {
	struct dma_fence fence;
	spinlock_t lock; /* of the fence */
	struct ring *ring;
	struct client *client; /* the job holds it until the fence is signalled */
	struct accel_lab_job record;
	struct hrtimer timer; /* of rings that are not shared; has a reference while it is active */
	struct list_head link; /* of the shared ring: in the client's list */
	u64 left_ns;
};

/* An open file of the render node. Its counts outlive it. */
struct client {
	struct kref references;
	struct list_head list;
	u64 id;
	char process[TASK_COMM_LEN];
	bool is_open;
	struct accel_lab_task task;
	struct list_head member; /* of the tasks on the runlist */
	struct list_head runs; /* on the shared ring */
	bool is_bound;
	bool is_dropped;
	struct records jobs;
	struct accel_lab_ring_counts counts[ACCEL_LAB_RINGS];
	struct drm_sched_entity entities[ACCEL_LAB_RINGS][ACCEL_LAB_PRIORITIES];
	struct mutex memory_lock; /* for the pointer */
	struct memory *memory; /* NULL before the first request */
};

int accel_lab_engine_start(struct device *device);
void accel_lab_engine_stop(void);
int accel_lab_entities_create(struct client *client);
void accel_lab_entities_destroy(struct client *client);
int accel_lab_submit(struct client *client, struct drm_file *file, const struct accel_lab_submit *submit);
void accel_lab_engine_show(struct seq_file *out);
void accel_lab_counts_show(struct seq_file *out, u64 client, const struct accel_lab_ring_counts *counts);

void accel_lab_run_ended(struct run *run, int error);

/* shared.c: the engine that tasks share by time slices. */

void accel_lab_shared_start(void);
void accel_lab_shared_stop(void);
int accel_lab_shared_join(struct client *client);
void accel_lab_shared_drop(struct client *client);
void accel_lab_shared_run(struct client *client, struct run *run);
void accel_lab_shared_set_timeslice(struct client *client, u64 timeslice_us);
int accel_lab_preempt(u32 hclient, u32 htsg);

/* device.c */

void accel_lab_client_put(struct client *client);

#endif
