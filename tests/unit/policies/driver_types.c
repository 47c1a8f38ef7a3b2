typedef unsigned char NvBool;
typedef unsigned short NvU16;
typedef unsigned int NvU32;
typedef unsigned long long NvU64;
typedef unsigned long long u64;
struct list_head { struct list_head *next, *prev; };
struct task_struct { int tgid; };
struct mm_struct { struct task_struct *owner; };
typedef NvU16 uvm_page_index_t;
typedef struct { uvm_page_index_t first, outer; } uvm_va_block_region_t;
typedef struct { unsigned long bitmap[8]; } uvm_page_mask_t;
typedef struct uvm_perf_prefetch_bitmap_tree {
	uvm_page_mask_t pages;
	uvm_page_index_t offset;
	NvU16 leaf_count;
	unsigned char level_count;
} uvm_perf_prefetch_bitmap_tree_t;
typedef struct uvm_va_space_mm_struct { long guard; struct mm_struct *mm; } uvm_va_space_mm_t;
typedef struct uvm_va_space_struct { long locks[4]; uvm_va_space_mm_t va_space_mm; } uvm_va_space_t;
typedef struct uvm_va_range_struct { uvm_va_space_t *va_space; } uvm_va_range_t;
typedef struct uvm_va_range_managed_struct { uvm_va_range_t va_range; } uvm_va_range_managed_t;
typedef struct uvm_va_block_struct {
	long kref;
	uvm_va_range_managed_t *managed_range;
	NvU64 start, end;
} uvm_va_block_t;
typedef struct uvm_gpu_chunk_struct {
	NvU64 address;
	struct { NvU32 type : 2; NvBool in_eviction : 1; NvU32 state : 3; };
	struct list_head list;
	uvm_va_block_t *va_block;
	struct uvm_gpu_chunk_struct *parent;
} uvm_gpu_chunk_t;
typedef struct uvm_gpu_root_chunk_struct { uvm_gpu_chunk_t chunk; NvU64 list_generation; } uvm_gpu_root_chunk_t;
typedef struct uvm_pmm_gpu_struct { struct { struct list_head va_block_used; } root_chunks; } uvm_pmm_gpu_t;
enum uvm_bpf_action { UVM_BPF_ACTION_DEFAULT, UVM_BPF_ACTION_BYPASS, UVM_BPF_ACTION_ENTER_LOOP };
enum nv_gpu_pmm_destination { NV_GPU_PMM_DESTINATION_USED = 1, NV_GPU_PMM_DESTINATION_UNUSED = 2 };
enum nv_gpu_pmm_position { NV_GPU_PMM_POSITION_HEAD = 1, NV_GPU_PMM_POSITION_TAIL = 2 };
typedef struct { NvBool attempted, conflict; NvU64 first, outer; } nv_gpu_prefetch_decision_t;
typedef struct uvm_bpf_prefetch_decision { nv_gpu_prefetch_decision_t request; } uvm_bpf_prefetch_decision_t;
typedef struct { NvU64 owner_id, root_id, generation; NvU32 source; } nv_gpu_pmm_snapshot_t;
typedef struct { NvBool attempted, conflict; NvU64 destination, position; } nv_gpu_pmm_request_t;
typedef struct uvm_bpf_pmm_decision_ctx {
	uvm_pmm_gpu_t *pmm;
	uvm_gpu_root_chunk_t *root_chunk;
	nv_gpu_pmm_snapshot_t observed;
	nv_gpu_pmm_request_t request;
} uvm_bpf_pmm_decision_ctx_t;
struct gpu_mem_ops {
	int (*gpu_test_trigger)(const char *buf, int len);
	int (*gpu_page_prefetch)(uvm_page_index_t page, uvm_perf_prefetch_bitmap_tree_t *tree,
		uvm_va_block_region_t *max, uvm_bpf_prefetch_decision_t *decision);
	int (*gpu_page_prefetch_iter)(uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *max,
		uvm_va_block_region_t *current, unsigned int counter, uvm_bpf_prefetch_decision_t *decision);
	int (*gpu_block_activate)(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision);
	int (*gpu_block_access)(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision);
	int (*gpu_evict_prepare)(uvm_pmm_gpu_t *pmm, struct list_head *used, struct list_head *unused);
};
struct gpu_mem_ops table;
struct task_struct task;
struct mm_struct mm;
uvm_va_space_t space;
uvm_va_range_t range;
uvm_va_range_managed_t managed_range;
uvm_va_block_t block;
uvm_gpu_root_chunk_t root_chunk;
uvm_pmm_gpu_t pmm;
uvm_perf_prefetch_bitmap_tree_t tree;
uvm_bpf_prefetch_decision_t prefetch;
uvm_bpf_pmm_decision_ctx_t eviction;
enum uvm_bpf_action action;
enum nv_gpu_pmm_destination destination;
enum nv_gpu_pmm_position position;
int bpf_gpu_set_prefetch_region(uvm_bpf_prefetch_decision_t *decision_ctx, u64 first, u64 outer) { return 0; }
int bpf_gpu_request_reorder(uvm_bpf_pmm_decision_ctx_t *decision_ctx, u64 destination, u64 position) { return 0; }
