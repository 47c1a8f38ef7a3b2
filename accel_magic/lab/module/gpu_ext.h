/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface of gpu_ext's policies. Names and widths are those of the NVIDIA driver, by which CO-RE finds members;
 * only what policies read is here, so offsets differ. Two layouts are fixed: the decisions, whose sizes policies check,
 * and the list in a chunk, from which policies find the chunk with offsetof, which CO-RE does not relocate.
 */
#ifndef ACCEL_LAB_GPU_EXT_H
#define ACCEL_LAB_GPU_EXT_H

#include <linux/build_bug.h>
#include <linux/list.h>
#include <linux/stddef.h>
#include <linux/types.h>

#include "accel_lab_uapi.h"

struct mm_struct;

typedef u16 uvm_page_index_t;

typedef struct {
	uvm_page_index_t first; /* inclusive */
	uvm_page_index_t outer; /* exclusive */
} uvm_va_block_region_t;

typedef struct {
	unsigned long bitmap[ACCEL_LAB_PAGES_PER_BLOCK / BITS_PER_LONG];
} uvm_page_mask_t;

typedef struct uvm_perf_prefetch_bitmap_tree {
	uvm_page_mask_t pages;
	uvm_page_index_t offset;
	u16 leaf_count;
	u8 level_count;
} uvm_perf_prefetch_bitmap_tree_t;

typedef struct uvm_va_space_mm_struct {
	struct mm_struct *mm;
} uvm_va_space_mm_t;

typedef struct uvm_va_space_struct {
	uvm_va_space_mm_t va_space_mm;
} uvm_va_space_t;

typedef struct uvm_va_range_struct {
	uvm_va_space_t *va_space;
} uvm_va_range_t;

typedef struct uvm_va_range_managed_struct {
	uvm_va_range_t va_range;
} uvm_va_range_managed_t;

typedef struct uvm_va_block_struct {
	uvm_va_range_managed_t *managed_range;
	u64 start;
	u64 end; /* inclusive */
	struct uvm_gpu_chunk_struct *chunk; /* NULL: nothing of the block is in device memory */
	uvm_page_mask_t resident;
} uvm_va_block_t;

typedef struct uvm_gpu_chunk_struct {
	u64 address;
	u64 state;
	struct list_head list;
	uvm_va_block_t *va_block;
} uvm_gpu_chunk_t;

typedef struct uvm_gpu_root_chunk_struct {
	uvm_gpu_chunk_t chunk;
	u64 list_generation; /* number of changes of list_state */
	u32 list_state;
} uvm_gpu_root_chunk_t;

typedef struct uvm_pmm_gpu_struct {
	struct {
		struct list_head free;
		struct list_head va_block_used;
		struct list_head va_block_unused; /* evicted first */
	} root_chunks;
} uvm_pmm_gpu_t;

enum gpu_action {
	GPU_ACTION_DEFAULT,
	GPU_ACTION_BYPASS,
	GPU_ACTION_ENTER_LOOP,
};

enum nv_gpu_pmm_destination {
	NV_GPU_PMM_DESTINATION_USED = 1,
	NV_GPU_PMM_DESTINATION_UNUSED = 2,
};

enum nv_gpu_pmm_position {
	NV_GPU_PMM_POSITION_HEAD = 1,
	NV_GPU_PMM_POSITION_TAIL = 2,
};

enum gpu_request_result {
	GPU_REQUEST_APPLY,
	GPU_REQUEST_DEFAULT,
	GPU_REQUEST_REPEAT,
	GPU_REQUEST_STALE,
	GPU_REQUEST_CONFLICT,
};

typedef struct uvm_bpf_prefetch_decision {
	u8 attempted;
	u8 conflict;
	u64 first;
	u64 outer;
} uvm_bpf_prefetch_decision_t;

typedef struct {
	u64 owner_id;
	u64 root_id;
	u64 generation;
	u32 source;
} nv_gpu_pmm_snapshot_t;

typedef struct {
	u8 attempted;
	u8 conflict;
	u64 destination;
	u64 position;
} nv_gpu_pmm_request_t;

typedef struct uvm_bpf_pmm_decision_ctx {
	uvm_pmm_gpu_t *pmm;
	uvm_gpu_root_chunk_t *root_chunk;
	nv_gpu_pmm_snapshot_t observed;
	nv_gpu_pmm_request_t request;
} uvm_bpf_pmm_decision_ctx_t;

static_assert(offsetof(struct uvm_gpu_chunk_struct, list) == 16);
static_assert(sizeof(uvm_bpf_prefetch_decision_t) == 24);
static_assert(sizeof(uvm_bpf_pmm_decision_ctx_t) == 72);
static_assert(offsetof(uvm_bpf_pmm_decision_ctx_t, request) == 48);

struct gpu_mem_ops {
	int (*gpu_test_trigger)(const char *buf, int len);
	int (*gpu_page_prefetch)(uvm_page_index_t page_index, uvm_perf_prefetch_bitmap_tree_t *bitmap_tree,
				 uvm_va_block_region_t *max_prefetch_region,
				 uvm_bpf_prefetch_decision_t *decision_ctx);
	int (*gpu_page_prefetch_iter)(uvm_perf_prefetch_bitmap_tree_t *bitmap_tree,
				      uvm_va_block_region_t *max_prefetch_region,
				      uvm_va_block_region_t *current_region, unsigned int counter,
				      uvm_bpf_prefetch_decision_t *decision_ctx);
	int (*gpu_block_activate)(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk,
				  uvm_bpf_pmm_decision_ctx_t *decision_ctx);
	int (*gpu_block_access)(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk,
				uvm_bpf_pmm_decision_ctx_t *decision_ctx);
	int (*gpu_evict_prepare)(uvm_pmm_gpu_t *pmm, struct list_head *va_block_used,
				 struct list_head *va_block_unused);
};

struct nv_gpu_task_init_ctx {
	u64 tsg_id;
	u32 engine_type;
	u64 default_timeslice; /* us */
	u32 default_interleave;
	u32 runlist_id;
};

static_assert(sizeof(struct nv_gpu_task_init_ctx) == 32);

struct nv_gpu_bind_ctx {
	u64 tsg_id;
	u32 runlist_id;
	u32 channel_count;
	u64 timeslice_us;
	u32 interleave_level;
	u32 allow;
};

struct nv_gpu_task_destroy_ctx {
	u64 tsg_id;
	u32 runlist_id;
	u32 engine_type;
};

struct nv_gpu_timeslice_control_ctx {
	u64 tsg_id;
	u64 requested_timeslice_us;
	u32 engine_type;
	u32 runlist_id;
	u32 hclient; /* with htsg, what bpf_nv_gpu_preempt_tsg takes */
	u32 htsg;
	u32 gpu_instance;
	u32 phase;
};

static_assert(sizeof(struct nv_gpu_timeslice_control_ctx) == 40);

struct nv_gpu_sched_ops {
	int (*on_task_init)(struct nv_gpu_task_init_ctx *ctx);
	int (*on_bind)(struct nv_gpu_bind_ctx *ctx);
	int (*on_task_destroy)(struct nv_gpu_task_destroy_ctx *ctx);
	int (*on_timeslice_control)(struct nv_gpu_timeslice_control_ctx *ctx);
};

#endif
