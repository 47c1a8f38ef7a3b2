/* SPDX-License-Identifier: GPL-2.0 */
#ifndef ACCEL_LAB_H
#define ACCEL_LAB_H

#include <drm/gpu_scheduler.h>
#include <linux/kref.h>
#include <linux/mutex.h>

#include "gpu_ext.h"

struct drm_file;
struct seq_file;

/* hooks.c: policies. Each call returns the policy's answer, or 0 (the default) if no policy has the hook. */

struct accel_lab_task_request { /* ctx is all that the policy sees */
	struct nv_gpu_task_init_ctx ctx;
	u64 timeslice_us;
	u32 interleave;
};

int accel_lab_hooks_register(void);
void accel_lab_hooks_show(struct seq_file *out);
int accel_lab_page_prefetch(uvm_page_index_t page, uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *max,
			    uvm_bpf_prefetch_decision_t *decision);
int accel_lab_page_prefetch_iter(uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *max,
				 uvm_va_block_region_t *current_region, unsigned int counter,
				 uvm_bpf_prefetch_decision_t *decision);
int accel_lab_block_activate(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision);
int accel_lab_block_access(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision);
int accel_lab_evict_prepare(uvm_pmm_gpu_t *pmm);
int accel_lab_task_init(struct nv_gpu_task_init_ctx *ctx);
int accel_lab_bind(struct nv_gpu_bind_ctx *ctx);
int accel_lab_task_destroy(struct nv_gpu_task_destroy_ctx *ctx);

/* memory.c: device memory. */

struct memory;

struct memory *accel_lab_memory_create(const struct accel_lab_memory *wanted);
void accel_lab_memory_destroy(struct memory *memory);
int accel_lab_memory_replay(struct memory *memory, struct accel_lab_replay *replay);
void accel_lab_memory_counts(struct memory *memory, struct accel_lab_counts *counts);
void accel_lab_memory_show(struct seq_file *out);

/* engine.c: jobs. */

struct accel_lab_ring_counts {
	atomic64_t queued;
	atomic64_t run;
	atomic64_t done;
	atomic64_t timed_out;
	atomic64_t cancelled; /* never run, because their file was closed */
};

/* An open file of the render node. Its counts outlive it. */
struct client {
	struct kref references;
	struct list_head list;
	u64 id;
	char process[TASK_COMM_LEN];
	bool is_open;
	struct accel_lab_task task;
	struct accel_lab_ring_counts counts[ACCEL_LAB_RINGS];
	struct drm_sched_entity entities[ACCEL_LAB_RINGS][ACCEL_LAB_PRIORITIES];
	struct mutex memory_lock;
	struct memory *memory; /* NULL before the first request */
};

int accel_lab_engine_start(struct device *device);
void accel_lab_engine_stop(void);
int accel_lab_entities_create(struct client *client);
void accel_lab_entities_destroy(struct client *client);
int accel_lab_submit(struct client *client, struct drm_file *file, const struct accel_lab_submit *submit);
void accel_lab_engine_show(struct seq_file *out);
void accel_lab_counts_show(struct seq_file *out, u64 client, const struct accel_lab_ring_counts *counts);

/* device.c */

void accel_lab_client_put(struct client *client);

#endif
