/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types that policies of a GPU's driver see: gpu_ext's interface. Names and widths are the driver's, by which CO-RE
 * finds members; offsets are those of accel_magic's model. Only two layouts are fixed: the decisions, whose sizes
 * policies check, and the list within a chunk, from which they find the chunk.
 */
#ifndef GPU_DRIVER_H
#define GPU_DRIVER_H

#define GPU_PAGES_PER_BLOCK 512 /* 4 KiB pages in a block of 2 MiB, which has one chunk of device memory at most */

typedef u16 uvm_page_index_t;

typedef struct {
	uvm_page_index_t first; /* the first page */
	uvm_page_index_t outer; /* the page after the last */
} uvm_va_block_region_t;

typedef struct {
	unsigned long bitmap[GPU_PAGES_PER_BLOCK / 64];
} uvm_page_mask_t;

/* Pages of a block that are in device memory, or about to be. */
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
	u64 end; /* the last byte */
	struct uvm_gpu_chunk_struct *chunk; /* null: no page of the block is in device memory */
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
	u64 list_generation; /* how often the chunk came to another list */
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
	GPU_ACTION_ENTER_LOOP, /* gpu_page_prefetch_iter decides, for each subtree around the page */
};

enum nv_gpu_pmm_destination {
	NV_GPU_PMM_DESTINATION_USED = 1,
	NV_GPU_PMM_DESTINATION_UNUSED = 2,
};

enum nv_gpu_pmm_position {
	NV_GPU_PMM_POSITION_HEAD = 1, /* evicted first */
	NV_GPU_PMM_POSITION_TAIL = 2,
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

_Static_assert(__builtin_offsetof(struct uvm_gpu_chunk_struct, list) == 16, "policies find a chunk by its list");
_Static_assert(sizeof(uvm_bpf_prefetch_decision_t) == 24, "fixed");
_Static_assert(sizeof(uvm_bpf_pmm_decision_ctx_t) == 72, "fixed");

/* A tenant's task: a group of channels that gets the GPU for a time slice at a time. */
struct nv_gpu_task_init_ctx {
	u64 tsg_id;
	u32 engine_type;
	u64 default_timeslice; /* us */
	u32 default_interleave;
	u32 runlist_id;
};

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

/* A process asks for a time slice for its task, as CUDA does when it creates a context. */
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

_Static_assert(sizeof(struct nv_gpu_timeslice_control_ctx) == 40, "fixed");

/* The hooks. Each may be missing. */
struct nv_gpu_sched_ops {
	/* A process made a task: which time slice and interleave level it gets. */
	int (*on_task_init)(struct nv_gpu_task_init_ctx *ctx);
	/* Its channels are about to be put on the runlist: whether they may be. */
	int (*on_bind)(struct nv_gpu_bind_ctx *ctx);
	int (*on_task_destroy)(struct nv_gpu_task_destroy_ctx *ctx);
	/* A process asks for a time slice, later than on_task_init: what it gets instead. */
	int (*on_timeslice_control)(struct nv_gpu_timeslice_control_ctx *ctx);
};

struct gpu_mem_ops {
	int (*gpu_test_trigger)(const char *buf, int len);
	/* A page faulted: what to bring with it. */
	int (*gpu_page_prefetch)(uvm_page_index_t page_index, uvm_perf_prefetch_bitmap_tree_t *bitmap_tree,
				 uvm_va_block_region_t *max_prefetch_region,
				 uvm_bpf_prefetch_decision_t *decision_ctx);
	int (*gpu_page_prefetch_iter)(uvm_perf_prefetch_bitmap_tree_t *bitmap_tree,
				      uvm_va_block_region_t *max_prefetch_region,
				      uvm_va_block_region_t *current_region, unsigned int counter,
				      uvm_bpf_prefetch_decision_t *decision_ctx);
	/* A chunk got a block: it is at the tail of the used list. */
	int (*gpu_block_activate)(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk,
				  uvm_bpf_pmm_decision_ctx_t *decision_ctx);
	/* A block was accessed. */
	int (*gpu_block_access)(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk,
				uvm_bpf_pmm_decision_ctx_t *decision_ctx);
	/* A chunk is needed: the first of the unused list, or else of the used one, will be evicted. */
	int (*gpu_evict_prepare)(uvm_pmm_gpu_t *pmm, struct list_head *va_block_used,
				 struct list_head *va_block_unused);
};

#endif
