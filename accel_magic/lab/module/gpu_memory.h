/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Device memory under a policy: what each access evicts, and which pages migrate. Nothing is moved, only counted.
 *
 * A page that is not in device memory is a fault: its block gets a chunk, from another block if none is free, and the
 * page migrates with what the prefetch policy adds. Policies are called where gpu_ext's NVIDIA driver calls them.
 *
 * Two programs include this: the lab's module (memory.c) and the model of accel_magic/policies (model.c). An includer
 * has the types of gpu_ext's interface, the kernel's fixed-width types, lists (list_empty, list_move, list_move_tail),
 * hweight64, min_t, container_of and __always_inline, and defines the functions declared first below.
 */
#ifndef ACCEL_LAB_GPU_MEMORY_H
#define ACCEL_LAB_GPU_MEMORY_H

#include "accel_lab_access.h"

/* The policy's hooks. Each returns the policy's answer, or 0 (the default) if no policy has the hook. */
int accel_lab_page_prefetch(uvm_page_index_t page, uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *max,
			    uvm_bpf_prefetch_decision_t *decision);
int accel_lab_page_prefetch_iter(uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *max,
				 uvm_va_block_region_t *current_region, unsigned int counter,
				 uvm_bpf_prefetch_decision_t *decision);
int accel_lab_block_activate(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision);
int accel_lab_block_access(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision);
int accel_lab_evict_prepare(uvm_pmm_gpu_t *pmm);

/* Calls gpu_fill_tree. Policies probe this function of the driver for the faulting block, its first argument. */
void uvm_perf_prefetch_get_hint_va_block(uvm_va_block_t *va_block, void *va_block_context, u32 new_residency,
					 void *faulted_pages, u32 faulted_region,
					 uvm_perf_prefetch_bitmap_tree_t *bitmap_tree);

#define GPU_MEMORY_DENSITY_PERCENT 51 /* of a subtree that is resident, from which the default prefetch takes all of it */
#define GPU_MEMORY_LEVELS 10 /* of a tree over the pages of a block */

enum gpu_list { GPU_LIST_FREE, GPU_LIST_USED, GPU_LIST_UNUSED };

/* Policies see the members from `pmm` on. */
struct gpu_memory {
	struct accel_lab_counts counts;
	uvm_va_block_t *blocks;
	u64 observe; /* 1: the policy hears of every access; 0: of faults only */
	uvm_pmm_gpu_t pmm;
	uvm_bpf_pmm_decision_ctx_t eviction;
	uvm_perf_prefetch_bitmap_tree_t tree;
	uvm_va_block_region_t max, region;
	uvm_bpf_prefetch_decision_t prefetch;
};

/* What an access did, and the pages of the block that it was decided to fetch. */
struct gpu_access {
	struct accel_lab_decision decision;
	uvm_va_block_region_t fetched;
};

/* Pages */

static __always_inline void gpu_fill_tree(uvm_perf_prefetch_bitmap_tree_t *tree, const uvm_va_block_t *block)
{
	*tree = (uvm_perf_prefetch_bitmap_tree_t){
		.pages = block->resident,
		.leaf_count = ACCEL_LAB_PAGES_PER_BLOCK,
		.level_count = GPU_MEMORY_LEVELS,
	};
}

/* Bits from `first` to before `outer` that are in the word of bit `first`. */
static __always_inline u64 gpu_word_mask(u32 first, u32 outer)
{
	u32 last = (first | 63) < outer ? 63 : (outer - 1) % 64;

	return (~0ul << first % 64) & (~0ul >> (63 - last));
}

/* Pages of an aligned subtree; `size` is a power of two. */
static __always_inline u32 gpu_pages_in(const uvm_page_mask_t *mask, u32 first, u32 size)
{
	u32 count = 0;

	if (size < 64)
		return hweight64(mask->bitmap[first / 64] >> first % 64 & ((1ul << size) - 1));
	for (u32 word = first / 64; word < (first + size) / 64; word++)
		count += hweight64(mask->bitmap[word]);
	return count;
}

static __always_inline bool gpu_has_page(const uvm_page_mask_t *mask, u32 page)
{
	return mask->bitmap[page / 64] >> page % 64 & 1;
}

static __always_inline void gpu_migrate(struct gpu_memory *memory, uvm_va_block_t *block, uvm_va_block_region_t region,
					struct accel_lab_decision *decision)
{
	u32 moved = 0;

	for (u32 at = region.first; at < region.outer; at = (at | 63) + 1) {
		u64 pages = gpu_word_mask(at, region.outer);

		moved += hweight64(pages & ~block->resident.bitmap[at / 64]);
		block->resident.bitmap[at / 64] |= pages;
	}
	decision->pages_in += moved;
	memory->counts.pages_in += moved;
}

/* Eviction */

static __always_inline uvm_gpu_root_chunk_t *gpu_root_of(uvm_gpu_chunk_t *chunk)
{
	return container_of(chunk, uvm_gpu_root_chunk_t, chunk);
}

static __always_inline uvm_gpu_root_chunk_t *gpu_first_of(struct list_head *list)
{
	return gpu_root_of(container_of(list->next, uvm_gpu_chunk_t, list));
}

static __always_inline void gpu_set_list(uvm_gpu_root_chunk_t *root, u32 list)
{
	root->list_generation += root->list_state != list;
	root->list_state = list;
}

/* Whether a request about lists is one that the driver understands. */
static __always_inline bool gpu_is_valid_move(const nv_gpu_pmm_request_t *request)
{
	return !request->conflict &&
	       (request->destination == NV_GPU_PMM_DESTINATION_USED ||
		request->destination == NV_GPU_PMM_DESTINATION_UNUSED) &&
	       (request->position == NV_GPU_PMM_POSITION_HEAD || request->position == NV_GPU_PMM_POSITION_TAIL);
}

/* A policy is about to decide about a chunk. */
static __always_inline uvm_bpf_pmm_decision_ctx_t *gpu_observe(struct gpu_memory *memory, uvm_gpu_root_chunk_t *root)
{
	memory->eviction = (uvm_bpf_pmm_decision_ctx_t){
		.pmm = &memory->pmm,
		.root_chunk = root,
		.observed = { (u64)&memory->pmm, (u64)root, root->list_generation, root->list_state },
	};
	return &memory->eviction;
}

/* Does what the policy requested; returns false if it requested nothing, or nothing valid. */
static __always_inline bool gpu_apply(struct gpu_memory *memory, uvm_gpu_root_chunk_t *root)
{
	const nv_gpu_pmm_request_t *request = &memory->eviction.request;
	bool used = request->destination == NV_GPU_PMM_DESTINATION_USED;
	struct list_head *list = used ? &memory->pmm.root_chunks.va_block_used :
					&memory->pmm.root_chunks.va_block_unused;

	if (!request->attempted)
		return false;
	if (!gpu_is_valid_move(request)) {
		memory->counts.refused++;
		return false;
	}
	if (request->position == NV_GPU_PMM_POSITION_HEAD)
		list_move(&root->chunk.list, list);
	else
		list_move_tail(&root->chunk.list, list);
	gpu_set_list(root, used ? GPU_LIST_USED : GPU_LIST_UNUSED);
	return true;
}

static __always_inline void gpu_activate(struct gpu_memory *memory, uvm_gpu_root_chunk_t *root)
{
	list_move_tail(&root->chunk.list, &memory->pmm.root_chunks.va_block_used);
	gpu_set_list(root, GPU_LIST_USED);
	accel_lab_block_activate(&memory->pmm, &root->chunk, gpu_observe(memory, root));
	gpu_apply(memory, root);
}

static __always_inline void gpu_access_chunk(struct gpu_memory *memory, uvm_gpu_root_chunk_t *root)
{
	int action = accel_lab_block_access(&memory->pmm, &root->chunk, gpu_observe(memory, root));

	if (action != GPU_ACTION_DEFAULT && action != GPU_ACTION_BYPASS)
		memory->counts.refused++;
	else if (!gpu_apply(memory, root) && !memory->eviction.request.attempted && action == GPU_ACTION_DEFAULT)
		list_move_tail(&root->chunk.list, &memory->pmm.root_chunks.va_block_used); /* least recently used */
}

static __always_inline uvm_gpu_root_chunk_t *gpu_evict(struct gpu_memory *memory, struct accel_lab_decision *decision)
{
	struct list_head *unused = &memory->pmm.root_chunks.va_block_unused;
	struct list_head *used = &memory->pmm.root_chunks.va_block_used;
	uvm_gpu_root_chunk_t *root;
	uvm_va_block_t *block;

	accel_lab_evict_prepare(&memory->pmm);
	root = gpu_first_of(list_empty(unused) ? used : unused);
	block = root->chunk.va_block;
	decision->evicted = block - memory->blocks;
	decision->pages_out = gpu_pages_in(&block->resident, 0, ACCEL_LAB_PAGES_PER_BLOCK);
	memory->counts.evictions++;
	memory->counts.pages_out += decision->pages_out;
	block->resident = (uvm_page_mask_t){};
	block->chunk = NULL;
	return root;
}

/* Prefetching */

/* Whether a decision to prefetch, possibly nothing, is one that the driver understands. */
static __always_inline bool gpu_is_valid_prefetch(const uvm_bpf_prefetch_decision_t *decision)
{
	bool none = !decision->first && !decision->outer;

	return decision->attempted && !decision->conflict &&
	       (none || (decision->first < decision->outer && decision->outer <= ACCEL_LAB_PAGES_PER_BLOCK));
}

static __always_inline uvm_va_block_region_t gpu_region_of(const uvm_bpf_prefetch_decision_t *decision)
{
	return (uvm_va_block_region_t){ decision->first, decision->outer };
}

/* Subtrees around the page, from the smallest: the default takes the largest dense one, a policy chooses itself. */
static __always_inline uvm_va_block_region_t gpu_choose(struct gpu_memory *memory, u32 page, bool ask)
{
	uvm_va_block_region_t chosen = {};

	for (u32 size = 2; size <= ACCEL_LAB_PAGES_PER_BLOCK; size *= 2) {
		u32 first = page / size * size, count = gpu_pages_in(&memory->tree.pages, first, size);
		uvm_va_block_region_t region = { first, first + size };

		if (!ask) {
			if (count * 100 > size * GPU_MEMORY_DENSITY_PERCENT)
				chosen = region;
			continue;
		}
		memory->region = region;
		memory->prefetch = (uvm_bpf_prefetch_decision_t){};
		if (accel_lab_page_prefetch_iter(&memory->tree, &memory->max, &memory->region, count,
						 &memory->prefetch) != GPU_ACTION_BYPASS)
			continue;
		if (gpu_is_valid_prefetch(&memory->prefetch))
			chosen = gpu_region_of(&memory->prefetch);
		else
			memory->counts.refused++;
	}
	return chosen;
}

static __always_inline uvm_va_block_region_t gpu_region_to_fetch(struct gpu_memory *memory, uvm_va_block_t *block,
								 u32 page)
{
	uvm_perf_prefetch_get_hint_va_block(block, NULL, 1, NULL, page, &memory->tree);
	memory->max = (uvm_va_block_region_t){ 0, ACCEL_LAB_PAGES_PER_BLOCK };
	memory->prefetch = (uvm_bpf_prefetch_decision_t){};
	switch (accel_lab_page_prefetch(page, &memory->tree, &memory->max, &memory->prefetch)) {
	case GPU_ACTION_DEFAULT:
		break;
	case GPU_ACTION_ENTER_LOOP:
		return gpu_choose(memory, page, true);
	case GPU_ACTION_BYPASS:
		if (gpu_is_valid_prefetch(&memory->prefetch))
			return gpu_region_of(&memory->prefetch);
		memory->counts.refused++;
		break;
	default:
		memory->counts.refused++;
	}
	return gpu_choose(memory, page, false);
}

/* Accesses */

static __always_inline void gpu_fault(struct gpu_memory *memory, uvm_va_block_t *block, u32 page,
				      uvm_va_range_managed_t *range, struct gpu_access *access)
{
	struct accel_lab_decision *decision = &access->decision;
	struct list_head *free = &memory->pmm.root_chunks.free;
	uvm_gpu_root_chunk_t *root;

	memory->counts.faults++;
	decision->outcome = ACCEL_LAB_FAULT;
	if (!block->managed_range)
		block->managed_range = range;
	if (block->chunk) {
		gpu_access_chunk(memory, gpu_root_of(block->chunk));
	} else {
		memory->counts.misses++;
		decision->outcome = ACCEL_LAB_MISS;
		root = list_empty(free) ? gpu_evict(memory, decision) : gpu_first_of(free);
		root->chunk.va_block = block;
		block->chunk = &root->chunk;
		gpu_activate(memory, root);
	}
	gpu_migrate(memory, block, (uvm_va_block_region_t){ page, page + 1 }, decision);
	access->fetched = gpu_region_to_fetch(memory, block, page);
	gpu_migrate(memory, block, access->fetched, decision);
}

/* One access of a page (block * 512 + page in the block) by the tenant with that range. Callers count accesses. */
static __always_inline struct gpu_access gpu_access_page(struct gpu_memory *memory, u64 number, u16 tenant,
							 uvm_va_range_managed_t *range)
{
	struct gpu_access access = { .decision = { .evicted = -1, .outcome = ACCEL_LAB_HIT, .tenant = tenant } };
	uvm_va_block_t *block = &memory->blocks[number / ACCEL_LAB_PAGES_PER_BLOCK];
	u32 page = number % ACCEL_LAB_PAGES_PER_BLOCK;
	u64 refused = memory->counts.refused;

	if (!gpu_has_page(&block->resident, page))
		gpu_fault(memory, block, page, range, &access);
	else if (memory->observe)
		gpu_access_chunk(memory, gpu_root_of(block->chunk));
	access.decision.refused = min_t(u64, memory->counts.refused - refused, 255);
	return access;
}

#endif
