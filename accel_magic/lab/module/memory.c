// SPDX-License-Identifier: GPL-2.0
/*
 * Oversubscribed device memory, driven by a trace of accesses. Nothing is moved, only counted.
 *
 * A page that is not in device memory is a fault: its block gets a chunk, from another block if none is free, and the
 * page migrates with what the prefetch policy adds. Policies are called where gpu_ext's NVIDIA driver calls them.
 * accel_magic/policies/model.c decides the same, access by access: change both.
 */
#include <linux/bitmap.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/xarray.h>

#include "accel_lab.h"

#define BATCH 256
#define DENSITY_PERCENT 51 /* of a subtree that is resident, from which the default prefetch takes all of it */
#define PAGES ACCEL_LAB_PAGES_PER_BLOCK

enum list_state { FREE, USED, UNUSED };

struct tenant {
	uvm_va_space_t va_space;
	uvm_va_range_managed_t range;
};

struct memory {
	struct kref references;
	struct list_head list;
	u64 first_page; /* of its mappings, in the file's address space */
	struct mutex lock; /* for what follows */
	uvm_pmm_gpu_t pmm;
	uvm_gpu_root_chunk_t *chunks;
	uvm_va_block_t *blocks;
	struct tenant *tenants;
	u32 block_count;
	u32 tenant_count;
	bool observe;
	struct accel_lab_counts counts;
	struct address_space *mapping; /* NULL: never mapped */
	struct xarray pages; /* of host memory, which mappings show wherever a page is */
	struct records faults;
};

/* What an access did, and the pages that came with it. */
struct access {
	struct accel_lab_decision decision;
	uvm_va_block_region_t fetched;
};

struct batch {
	u32 pages[BATCH];
	u16 tenants[BATCH];
	struct accel_lab_decision decisions[BATCH];
};

static DEFINE_MUTEX(lock); /* for the three below */
static u64 next_page;
static LIST_HEAD(memories);
static struct accel_lab_counts past; /* of memories that are gone */

/* Eviction */

static uvm_gpu_root_chunk_t *root_of(uvm_gpu_chunk_t *chunk)
{
	return container_of(chunk, uvm_gpu_root_chunk_t, chunk);
}

static void set_state(uvm_gpu_root_chunk_t *root, u32 state)
{
	root->list_generation += root->list_state != state;
	root->list_state = state;
}

static uvm_bpf_pmm_decision_ctx_t observed(struct memory *memory, uvm_gpu_root_chunk_t *root)
{
	return (uvm_bpf_pmm_decision_ctx_t){
		.pmm = &memory->pmm,
		.root_chunk = root,
		.observed = { (u64)&memory->pmm, (u64)root, root->list_generation, root->list_state },
	};
}

/* Does what the policy requested; returns false if it requested nothing, or nothing valid. */
static bool apply(struct memory *memory, uvm_gpu_root_chunk_t *root, const nv_gpu_pmm_request_t *request)
{
	bool used = request->destination == NV_GPU_PMM_DESTINATION_USED;
	bool head = request->position == NV_GPU_PMM_POSITION_HEAD;
	struct list_head *list = used ? &memory->pmm.root_chunks.va_block_used :
					&memory->pmm.root_chunks.va_block_unused;

	if (!request->attempted)
		return false;
	if (request->conflict || (!used && request->destination != NV_GPU_PMM_DESTINATION_UNUSED) ||
	    (!head && request->position != NV_GPU_PMM_POSITION_TAIL)) {
		memory->counts.refused++;
		return false;
	}
	if (head)
		list_move(&root->chunk.list, list);
	else
		list_move_tail(&root->chunk.list, list);
	set_state(root, used ? USED : UNUSED);
	return true;
}

static void activate(struct memory *memory, uvm_gpu_root_chunk_t *root)
{
	uvm_bpf_pmm_decision_ctx_t decision;

	list_move_tail(&root->chunk.list, &memory->pmm.root_chunks.va_block_used);
	set_state(root, USED);
	decision = observed(memory, root);
	accel_lab_block_activate(&memory->pmm, &root->chunk, &decision);
	apply(memory, root, &decision.request);
}

static void access_chunk(struct memory *memory, uvm_gpu_root_chunk_t *root)
{
	uvm_bpf_pmm_decision_ctx_t decision = observed(memory, root);
	int action = accel_lab_block_access(&memory->pmm, &root->chunk, &decision);

	if (action != GPU_ACTION_DEFAULT && action != GPU_ACTION_BYPASS)
		memory->counts.refused++;
	else if (!apply(memory, root, &decision.request) && !decision.request.attempted && action == GPU_ACTION_DEFAULT)
		list_move_tail(&root->chunk.list, &memory->pmm.root_chunks.va_block_used); /* least recently used */
}

static uvm_gpu_root_chunk_t *evict(struct memory *memory, struct accel_lab_decision *decision)
{
	struct list_head *unused = &memory->pmm.root_chunks.va_block_unused;
	struct list_head *used = &memory->pmm.root_chunks.va_block_used;
	uvm_va_block_t *block;
	uvm_gpu_chunk_t *chunk;

	accel_lab_evict_prepare(&memory->pmm);
	chunk = list_first_entry(list_empty(unused) ? used : unused, uvm_gpu_chunk_t, list);
	block = chunk->va_block;
	decision->evicted = block - memory->blocks;
	decision->pages_out = bitmap_weight(block->resident.bitmap, PAGES);
	memory->counts.evictions++;
	memory->counts.pages_out += decision->pages_out;
	bitmap_zero(block->resident.bitmap, PAGES);
	block->chunk = NULL;
	if (memory->mapping)
		unmap_mapping_range(memory->mapping, (loff_t)(memory->first_page + (u64)decision->evicted * PAGES)
				    << PAGE_SHIFT, SZ_2M, 1);
	return root_of(chunk);
}

static uvm_gpu_root_chunk_t *allocate(struct memory *memory, struct accel_lab_decision *decision)
{
	struct list_head *free = &memory->pmm.root_chunks.free;

	return list_empty(free) ? evict(memory, decision) : list_first_entry(free, uvm_gpu_root_chunk_t, chunk.list);
}

/* Prefetching */

static unsigned int resident_in(const uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t region)
{
	unsigned int before = region.first ? bitmap_weight(tree->pages.bitmap, region.first) : 0;

	return bitmap_weight(tree->pages.bitmap, region.outer) - before;
}

static bool is_valid(const uvm_bpf_prefetch_decision_t *decision)
{
	bool none = !decision->first && !decision->outer;

	return decision->attempted && !decision->conflict &&
	       (none || (decision->first < decision->outer && decision->outer <= PAGES));
}

static uvm_va_block_region_t region_of(const uvm_bpf_prefetch_decision_t *decision)
{
	return (uvm_va_block_region_t){ decision->first, decision->outer };
}

/* Subtrees around the page, from the smallest: the default takes the largest dense one, a policy chooses itself. */
static uvm_va_block_region_t choose(struct memory *memory, unsigned int page, uvm_perf_prefetch_bitmap_tree_t *tree,
				    uvm_va_block_region_t *max, bool ask)
{
	uvm_va_block_region_t chosen = {};
	unsigned int size, count;

	for (size = 2; size <= PAGES; size *= 2) {
		uvm_va_block_region_t region = { rounddown(page, size), rounddown(page, size) + size };
		uvm_bpf_prefetch_decision_t decision = {};

		count = resident_in(tree, region);
		if (!ask) {
			if (count * 100 > size * DENSITY_PERCENT)
				chosen = region;
			continue;
		}
		if (accel_lab_page_prefetch_iter(tree, max, &region, count, &decision) != GPU_ACTION_BYPASS)
			continue;
		if (is_valid(&decision))
			chosen = region_of(&decision);
		else
			memory->counts.refused++;
	}
	return chosen;
}

/* Policies probe this function of the driver for the faulting block, its first argument. */
__attribute__((noipa)) void uvm_perf_prefetch_get_hint_va_block(uvm_va_block_t *va_block, void *va_block_context,
								u32 new_residency, void *faulted_pages,
								u32 faulted_region,
								uvm_perf_prefetch_bitmap_tree_t *bitmap_tree);
void uvm_perf_prefetch_get_hint_va_block(uvm_va_block_t *va_block, void *va_block_context, u32 new_residency,
					 void *faulted_pages, u32 faulted_region,
					 uvm_perf_prefetch_bitmap_tree_t *bitmap_tree)
{
	bitmap_copy(bitmap_tree->pages.bitmap, va_block->resident.bitmap, PAGES);
	bitmap_tree->leaf_count = PAGES;
	bitmap_tree->level_count = ilog2(PAGES) + 1;
}

static uvm_va_block_region_t region_to_fetch(struct memory *memory, uvm_va_block_t *block, unsigned int page)
{
	uvm_va_block_region_t max = { 0, PAGES };
	uvm_perf_prefetch_bitmap_tree_t tree = {};
	uvm_bpf_prefetch_decision_t decision = {};

	uvm_perf_prefetch_get_hint_va_block(block, NULL, 1, NULL, page, &tree);
	switch (accel_lab_page_prefetch(page, &tree, &max, &decision)) {
	case GPU_ACTION_DEFAULT:
		break;
	case GPU_ACTION_ENTER_LOOP:
		return choose(memory, page, &tree, &max, true);
	case GPU_ACTION_BYPASS:
		if (is_valid(&decision))
			return region_of(&decision);
		fallthrough;
	default:
		memory->counts.refused++;
	}
	return choose(memory, page, &tree, &max, false);
}

static void migrate(struct memory *memory, uvm_va_block_t *block, uvm_va_block_region_t region,
		    struct accel_lab_decision *decision)
{
	unsigned int before = bitmap_weight(block->resident.bitmap, PAGES), moved;

	bitmap_set(block->resident.bitmap, region.first, region.outer - region.first);
	moved = bitmap_weight(block->resident.bitmap, PAGES) - before;
	decision->pages_in += moved;
	memory->counts.pages_in += moved;
}

/* Accesses */

static void fault(struct memory *memory, uvm_va_block_t *block, unsigned int page, struct access *access)
{
	struct accel_lab_decision *decision = &access->decision;
	uvm_gpu_root_chunk_t *root;

	memory->counts.faults++;
	decision->outcome = ACCEL_LAB_FAULT;
	if (!block->managed_range)
		block->managed_range = &memory->tenants[decision->tenant].range;
	if (block->chunk) {
		access_chunk(memory, root_of(block->chunk));
	} else {
		memory->counts.misses++;
		decision->outcome = ACCEL_LAB_MISS;
		root = allocate(memory, decision);
		root->chunk.va_block = block;
		block->chunk = &root->chunk;
		activate(memory, root);
	}
	migrate(memory, block, (uvm_va_block_region_t){ page, page + 1 }, decision);
	access->fetched = region_to_fetch(memory, block, page);
	migrate(memory, block, access->fetched, decision);
}

static struct access access_page(struct memory *memory, u32 number, u16 tenant)
{
	uvm_va_block_t *block = &memory->blocks[number / PAGES];
	struct access access = { .decision = { .evicted = -1, .outcome = ACCEL_LAB_HIT, .tenant = tenant } };
	u64 refused = memory->counts.refused;

	memory->counts.accesses++;
	if (!test_bit(number % PAGES, block->resident.bitmap))
		fault(memory, block, number % PAGES, &access);
	else if (memory->observe)
		access_chunk(memory, root_of(block->chunk));
	access.decision.refused = min_t(u64, memory->counts.refused - refused, U8_MAX);
	return access;
}

static int access_batch(struct memory *memory, struct batch *batch, u32 count, u32 *done)
{
	guard(mutex)(&memory->lock);
	for (*done = 0; *done < count; ++*done) {
		u32 page = batch->pages[*done];
		u16 tenant = batch->tenants[*done];

		if (page / PAGES >= memory->block_count || tenant >= memory->tenant_count)
			return -EINVAL;
		batch->decisions[*done] = access_page(memory, page, tenant).decision;
	}
	return 0;
}

/* Nothing is copied under the memory's lock: the caller's arrays may be in a mapping of it. */
static int replay_batch(struct memory *memory, struct accel_lab_replay *replay, struct batch *batch)
{
	u32 start = replay->done, count = min_t(u32, replay->count - start, BATCH), done;
	int error;

	if (copy_from_user(batch->pages, u64_to_user_ptr(replay->pages) + start * sizeof(u32), count * sizeof(u32)))
		return -EFAULT;
	memset(batch->tenants, 0, sizeof(batch->tenants));
	if (replay->tenants &&
	    copy_from_user(batch->tenants, u64_to_user_ptr(replay->tenants) + start * sizeof(u16), count * sizeof(u16)))
		return -EFAULT;
	error = access_batch(memory, batch, count, &done);
	replay->done += done;
	if (replay->decisions &&
	    copy_to_user(u64_to_user_ptr(replay->decisions) + start * sizeof(*batch->decisions), batch->decisions,
			 done * sizeof(*batch->decisions)))
		return -EFAULT;
	return error;
}

int accel_lab_memory_replay(struct memory *memory, struct accel_lab_replay *replay)
{
	struct batch *batch = kmalloc(sizeof(*batch), GFP_KERNEL);
	int error = 0;

	if (!batch)
		return -ENOMEM;
	replay->done = 0;
	while (replay->done < replay->count && !error && !signal_pending(current)) {
		error = replay_batch(memory, replay, batch);
		cond_resched();
	}
	kfree(batch);
	return error;
}

/* Accesses of mappings: of the process whose memory it is, and otherwise of the first tenant */

static u16 tenant_of(const struct memory *memory, const struct mm_struct *mm)
{
	u16 tenant = memory->tenant_count;

	while (tenant-- > 1)
		if (memory->tenants[tenant].va_space.va_space_mm.mm == mm)
			return tenant;
	return 0;
}

static struct page *page_at(struct memory *memory, u32 number)
{
	struct page *page = xa_load(&memory->pages, number);

	if (page)
		return page;
	page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (page && xa_is_err(xa_store(&memory->pages, number, page, GFP_KERNEL_ACCOUNT))) {
		__free_page(page);
		return NULL;
	}
	return page;
}

/* Show a page in the mapping that touched one, if the mapping reaches so far. */
static vm_fault_t show_page(struct memory *memory, struct vm_area_struct *vma, u32 number)
{
	u64 offset = memory->first_page + number - vma->vm_pgoff;
	struct page *page;

	if (memory->first_page + number < vma->vm_pgoff || offset >= vma_pages(vma))
		return VM_FAULT_NOPAGE;
	page = page_at(memory, number);
	return page ? vmf_insert_pfn(vma, vma->vm_start + (offset << PAGE_SHIFT), page_to_pfn(page)) : VM_FAULT_OOM;
}

static vm_fault_t touch(struct vm_fault *vmf)
{
	struct memory *memory = vmf->vma->vm_private_data;
	u64 number = vmf->pgoff - memory->first_page;
	struct accel_lab_fault fault;
	struct access access;
	vm_fault_t shown;
	u32 page;

	if (number / PAGES >= memory->block_count)
		return VM_FAULT_SIGBUS;
	guard(mutex)(&memory->lock);
	fault.time_ns = ktime_get_ns();
	access = access_page(memory, number, tenant_of(memory, vmf->vma->vm_mm));
	fault.page = number;
	fault.decision = access.decision;
	accel_lab_records_add(&memory->faults, &fault);
	shown = show_page(memory, vmf->vma, number);
	for (page = access.fetched.first; page < access.fetched.outer && !(shown & VM_FAULT_ERROR); page++)
		shown = show_page(memory, vmf->vma, number / PAGES * PAGES + page);
	return shown;
}

static void mapping_opened(struct vm_area_struct *vma)
{
	accel_lab_memory_get(vma->vm_private_data);
}

static void mapping_closed(struct vm_area_struct *vma)
{
	accel_lab_memory_put(vma->vm_private_data);
}

static const struct vm_operations_struct operations = {
	.open = mapping_opened,
	.close = mapping_closed,
	.fault = touch,
};

/* Mappings of all memories are in one address space, each at its place: see accel_lab_memory_create. */
int accel_lab_memory_map(struct memory *memory, struct vm_area_struct *vma)
{
	if (!(vma->vm_flags & VM_SHARED) || vma->vm_pgoff >= (u64)memory->block_count * PAGES ||
	    vma_pages(vma) > (u64)memory->block_count * PAGES - vma->vm_pgoff)
		return -EINVAL;
	if (accel_lab_records_start(&memory->faults))
		return -ENOMEM;
	vma->vm_pgoff += memory->first_page;
	vm_flags_set(vma, VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY);
	vma->vm_ops = &operations;
	vma->vm_private_data = memory;
	kref_get(&memory->references);
	scoped_guard(mutex, &memory->lock)
		memory->mapping = vma->vm_file->f_mapping;
	return 0;
}

int accel_lab_memory_faults(struct memory *memory, struct accel_lab_take *take)
{
	return accel_lab_records_take(&memory->faults, take);
}

/* Memories */

static struct mm_struct *memory_of_process(u32 number)
{
	struct task_struct *task;
	struct mm_struct *mm = NULL;
	struct pid *pid;

	if (!number) {
		mmgrab(current->mm);
		return current->mm;
	}
	pid = find_get_pid(number);
	task = get_pid_task(pid, PIDTYPE_PID);
	put_pid(pid);
	if (!task)
		return NULL;
	mm = get_task_mm(task);
	put_task_struct(task);
	if (mm) {
		mmgrab(mm); /* the struct, by which policies recognise the process; not its pages */
		mmput(mm);
	}
	return mm;
}

static int add_tenants(struct memory *memory, const struct accel_lab_memory *wanted)
{
	const u32 __user *processes = u64_to_user_ptr(wanted->processes);
	struct tenant *tenant;
	u32 process = 0, i;

	for (i = 0; i < memory->tenant_count; i++) {
		if (wanted->tenants && get_user(process, processes + i))
			return -EFAULT;
		tenant = &memory->tenants[i];
		tenant->va_space.va_space_mm.mm = memory_of_process(process);
		if (!tenant->va_space.va_space_mm.mm)
			return -ESRCH;
		tenant->range.va_range.va_space = &tenant->va_space;
	}
	return 0;
}

static void release(struct memory *memory)
{
	struct page *page;
	unsigned long number;
	u32 i;

	xa_for_each(&memory->pages, number, page)
		__free_page(page);
	xa_destroy(&memory->pages);
	accel_lab_records_free(&memory->faults);
	for (i = 0; memory->tenants && i < memory->tenant_count; i++) {
		if (memory->tenants[i].va_space.va_space_mm.mm)
			mmdrop(memory->tenants[i].va_space.va_space_mm.mm);
	}
	kvfree(memory->tenants);
	kvfree(memory->blocks);
	kvfree(memory->chunks);
	kfree(memory);
}

static bool is_size(u32 count, u32 most)
{
	return count && count <= most;
}

struct memory *accel_lab_memory_create(const struct accel_lab_memory *wanted)
{
	struct memory *memory;
	int error;
	u32 i;

	if (!is_size(wanted->chunks, ACCEL_LAB_MOST_BLOCKS) || !is_size(wanted->blocks, ACCEL_LAB_MOST_BLOCKS) ||
	    wanted->tenants > ACCEL_LAB_MOST_TENANTS || wanted->observe > 1)
		return ERR_PTR(-EINVAL);
	memory = kzalloc(sizeof(*memory), GFP_KERNEL);
	if (!memory)
		return ERR_PTR(-ENOMEM);
	kref_init(&memory->references);
	mutex_init(&memory->lock);
	xa_init(&memory->pages);
	accel_lab_records_init(&memory->faults, sizeof(struct accel_lab_fault));
	memory->block_count = wanted->blocks;
	memory->tenant_count = wanted->tenants ?: 1;
	memory->observe = wanted->observe;
	memory->chunks = kvcalloc(wanted->chunks, sizeof(*memory->chunks), GFP_KERNEL);
	memory->blocks = kvcalloc(wanted->blocks, sizeof(*memory->blocks), GFP_KERNEL);
	memory->tenants = kvcalloc(memory->tenant_count, sizeof(*memory->tenants), GFP_KERNEL);
	error = memory->chunks && memory->blocks && memory->tenants ? add_tenants(memory, wanted) : -ENOMEM;
	if (error) {
		release(memory);
		return ERR_PTR(error);
	}
	INIT_LIST_HEAD(&memory->pmm.root_chunks.free);
	INIT_LIST_HEAD(&memory->pmm.root_chunks.va_block_used);
	INIT_LIST_HEAD(&memory->pmm.root_chunks.va_block_unused);
	for (i = 0; i < wanted->chunks; i++) {
		memory->chunks[i].chunk.address = (u64)i * SZ_2M;
		list_add_tail(&memory->chunks[i].chunk.list, &memory->pmm.root_chunks.free);
	}
	for (i = 0; i < wanted->blocks; i++) {
		memory->blocks[i].start = (u64)i * SZ_2M;
		memory->blocks[i].end = memory->blocks[i].start + SZ_2M - 1;
	}
	guard(mutex)(&lock);
	memory->first_page = next_page;
	next_page += (u64)wanted->blocks * PAGES; /* 64-bit numbers of pages are never used up */
	list_add(&memory->list, &memories);
	return memory;
}

static void add(struct accel_lab_counts *sum, const struct accel_lab_counts *counts)
{
	sum->accesses += counts->accesses;
	sum->faults += counts->faults;
	sum->misses += counts->misses;
	sum->evictions += counts->evictions;
	sum->pages_in += counts->pages_in;
	sum->pages_out += counts->pages_out;
	sum->refused += counts->refused;
}

void accel_lab_memory_get(struct memory *memory)
{
	kref_get(&memory->references);
}

static void destroy(struct kref *references)
{
	struct memory *memory = container_of(references, struct memory, references);

	scoped_guard(mutex, &lock) {
		list_del(&memory->list);
		add(&past, &memory->counts);
	}
	release(memory);
}

void accel_lab_memory_put(struct memory *memory)
{
	if (memory)
		kref_put(&memory->references, destroy);
}

void accel_lab_memory_counts(struct memory *memory, struct accel_lab_counts *counts)
{
	guard(mutex)(&memory->lock);
	*counts = memory->counts;
}

void accel_lab_memory_show(struct seq_file *out)
{
	struct accel_lab_counts sum;
	struct memory *memory;
	unsigned int count = 0;

	scoped_guard(mutex, &lock) {
		sum = past;
		list_for_each_entry(memory, &memories, list) {
			add(&sum, &memory->counts);
			count++;
		}
	}
	seq_printf(out, "memories %u\naccesses %llu\nfaults %llu\nmisses %llu\nevictions %llu\n", count, sum.accesses,
		   sum.faults, sum.misses, sum.evictions);
	seq_printf(out, "pages_in %llu\npages_out %llu\nrefused %llu\n", sum.pages_in, sum.pages_out, sum.refused);
}
