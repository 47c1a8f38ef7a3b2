// SPDX-License-Identifier: GPL-2.0
/*
 * Oversubscribed device memory, driven by a trace of accesses or by touches of a mapping. gpu_memory.h decides what each
 * access does.
 */
#include <linux/bitops.h>
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
#define PAGES ACCEL_LAB_PAGES_PER_BLOCK

struct tenant {
	uvm_va_space_t va_space;
	uvm_va_range_managed_t range;
};

struct memory {
	struct kref references;
	struct list_head list;
	u64 first_page; /* of its mappings, in the file's address space */
	struct mutex lock; /* for what follows */
	struct gpu_memory gpu;
	uvm_gpu_root_chunk_t *chunks;
	struct tenant *tenants;
	u32 block_count;
	u32 tenant_count;
	struct address_space *mapping; /* NULL: never mapped */
	struct xarray pages; /* of host memory, which mappings show wherever a page is */
	struct records faults;
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

/* A function that policies can probe: it keeps its arguments in their registers. */
__attribute__((noipa)) void uvm_perf_prefetch_get_hint_va_block(uvm_va_block_t *va_block, void *va_block_context,
								u32 new_residency, void *faulted_pages,
								u32 faulted_region,
								uvm_perf_prefetch_bitmap_tree_t *bitmap_tree)
{
	gpu_fill_tree(bitmap_tree, va_block);
}

/* Accesses */

static void unmap(struct memory *memory, u32 block)
{
	if (memory->mapping)
		unmap_mapping_range(memory->mapping, (loff_t)(memory->first_page + (u64)block * PAGES) << PAGE_SHIFT,
				    SZ_2M, 1);
}

static struct gpu_access access_page(struct memory *memory, u32 number, u16 tenant)
{
	struct gpu_access access = gpu_access_page(&memory->gpu, number, tenant, &memory->tenants[tenant].range);

	memory->gpu.counts.accesses++;
	if (access.decision.evicted >= 0)
		unmap(memory, access.decision.evicted);
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
	struct gpu_access access;
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
	kvfree(memory->gpu.blocks);
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
	memory->gpu.observe = wanted->observe;
	memory->chunks = kvcalloc(wanted->chunks, sizeof(*memory->chunks), GFP_KERNEL);
	memory->gpu.blocks = kvcalloc(wanted->blocks, sizeof(*memory->gpu.blocks), GFP_KERNEL);
	memory->tenants = kvcalloc(memory->tenant_count, sizeof(*memory->tenants), GFP_KERNEL);
	error = memory->chunks && memory->gpu.blocks && memory->tenants ? add_tenants(memory, wanted) : -ENOMEM;
	if (error) {
		release(memory);
		return ERR_PTR(error);
	}
	INIT_LIST_HEAD(&memory->gpu.pmm.root_chunks.free);
	INIT_LIST_HEAD(&memory->gpu.pmm.root_chunks.va_block_used);
	INIT_LIST_HEAD(&memory->gpu.pmm.root_chunks.va_block_unused);
	for (i = 0; i < wanted->chunks; i++) {
		memory->chunks[i].chunk.address = (u64)i * SZ_2M;
		list_add_tail(&memory->chunks[i].chunk.list, &memory->gpu.pmm.root_chunks.free);
	}
	for (i = 0; i < wanted->blocks; i++) {
		memory->gpu.blocks[i].start = (u64)i * SZ_2M;
		memory->gpu.blocks[i].end = memory->gpu.blocks[i].start + SZ_2M - 1;
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
		add(&past, &memory->gpu.counts);
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
	*counts = memory->gpu.counts;
}

void accel_lab_memory_show(struct seq_file *out)
{
	struct accel_lab_counts sum;
	struct memory *memory;
	unsigned int count = 0;

	scoped_guard(mutex, &lock) {
		sum = past;
		list_for_each_entry(memory, &memories, list) {
			add(&sum, &memory->gpu.counts);
			count++;
		}
	}
	seq_printf(out, "memories %u\naccesses %llu\nfaults %llu\nmisses %llu\nevictions %llu\n", count, sum.accesses,
		   sum.faults, sum.misses, sum.evictions);
	seq_printf(out, "pages_in %llu\npages_out %llu\nrefused %llu\n", sum.pages_in, sum.pages_out, sum.refused);
}
