// The memory of a GPU with unified memory, behind the hooks of gpu_ext's policies. Nothing is moved, only counted.
//
// Compiled to LLVM IR by tools/build_policy_model, and linked with a translated policy, so that its hooks are inlined.
// All that a policy can see lies in one arena; addresses outside of it read as zeros.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef int i32;

struct list_head {
	struct list_head *next, *prev;
};

struct task_struct {
	int pid, tgid;
	char comm[16];
};

struct mm_struct {
	struct task_struct *owner;
};

#include "gpu_driver.h"

#define DENSITY_PERCENT 51 /* of a subtree, for the driver's own prefetching to take all of it */
#define PART static inline __attribute__((always_inline))

enum { FREE, USED, UNUSED };
enum { HIT, FAULT, MISS };
enum { APPLY, DEFAULT, REPEAT, STALE, CONFLICT };
enum { EIO = 5, EFAULT = 14 };
enum { MOST_STACK = 16384 };
enum { MOST_TASKS = 256, MOST_TIMESLICE_US = 1000000, MOST_INTERLEAVE = 2 };

struct tenant {
	struct task_struct task;
	struct mm_struct mm;
	uvm_va_space_t va_space;
	uvm_va_range_managed_t range;
};

struct request {
	u64 attempted, conflict, value;
};

struct task_request { // ctx is all that the policy sees
	struct nv_gpu_task_init_ctx ctx;
	struct request timeslice_us, interleave;
};

struct timeslice_request {
	struct nv_gpu_timeslice_control_ctx ctx;
	struct request timeslice_us;
};

// In Python: `_State` in engine.py. Sizes in chunks, blocks, tenants; counters since the beginning.
struct state {
	u64 chunk_count, block_count, tenant_count, observe;
	u64 accesses, faults, misses, evictions, pages_in, pages_out, refused;
	uvm_gpu_root_chunk_t *chunks;
	uvm_va_block_t *blocks;
	struct tenant *tenants;
	struct tenant *current;
	u64 random;
	uvm_pmm_gpu_t pmm;
	uvm_perf_prefetch_bitmap_tree_t tree;
	uvm_va_block_region_t whole, region;
	uvm_bpf_prefetch_decision_t prefetch;
	uvm_bpf_pmm_decision_ctx_t eviction;
	struct task_request task;
	struct nv_gpu_bind_ctx bind;
	struct nv_gpu_task_destroy_ctx destroyed;
	struct timeslice_request control;
	u64 preempted[MOST_TASKS / 64]; // tasks that lost the engine in the current launch
	u64 registers[21]; /* struct pt_regs */
};

// What happened with one access. In Python: `ACCESS` in engine.py.
struct access {
	i32 evicted; /* the block that had to go; -1: none */
	u16 pages_in, pages_out;
	u8 outcome;
	u8 refused; /* requests of the policy that made no sense */
	u16 unused;
};

// Where the arena is; constants in the linked module.
extern const u64 accel_arena, accel_arena_size;

// The policy's hooks, and the function that a policy may probe for the block whose page faulted. Each is defined by
// engine.py: 0 (the driver's default) where the policy has none.
u64 policy_gpu_page_prefetch(void *arguments);
u64 policy_gpu_page_prefetch_iter(void *arguments);
u64 policy_gpu_block_activate(void *arguments);
u64 policy_gpu_block_access(void *arguments);
u64 policy_gpu_evict_prepare(void *arguments);
u64 policy_on_task_init(void *arguments);
u64 policy_on_bind(void *arguments);
u64 policy_on_task_destroy(void *arguments);
u64 policy_on_timeslice_control(void *arguments);
u64 policy_launch(void *registers);
u64 policy_launched(void *registers);
u64 policy_uvm_perf_prefetch_get_hint_va_block(void *registers);

PART struct state *of_arena(void) { return (struct state *)accel_arena; }
#define S of_arena()

// What policies may call

PART _Bool readable(u64 address, u64 size) {
	return size <= accel_arena_size && address - accel_arena <= accel_arena_size - size;
}

static const u64 zeros;

void *accel_object(u64 address, u64 size) { return readable(address, size) ? (void *)address : (void *)&zeros; }

u64 accel_helper_7(u64 a, u64 b, u64 c, u64 d, u64 e) {
	u64 x = S->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	S->random = x;
	return (u32)(x >> 32);
}

u64 accel_helper_16(u64 to, u64 size, u64 c, u64 d, u64 e) {
	for (u64 at = 0; at < size; at++)
		((u8 *)to)[at] = at + 1 < size && at < 16 ? S->current->task.comm[at] : 0;
	return 0;
}

// Programs also read their own stack so, to make a number of a pointer. It is in a frame of the callers', all of which are
// above this function's own.
__attribute__((noinline)) u64 accel_helper_113(u64 to, u64 size, u64 from, u64 d, u64 e) {
	u64 above = from - (u64)__builtin_frame_address(0);
	_Bool known = readable(from, size) || (above < MOST_STACK && size <= MOST_STACK - above);

	for (u64 at = 0; at < size; at++)
		((u8 *)to)[at] = known ? ((const u8 *)from)[at] : 0;
	return known ? 0 : (u64)-EFAULT;
}

u64 accel_helper_177(u64 format, u64 size, u64 values, u64 values_size, u64 e) { return 0; } // nothing is printed

u64 accel_helper_10000(u64 decision, u64 first, u64 outer, u64 d, u64 e) { // bpf_gpu_set_prefetch_region
	uvm_bpf_prefetch_decision_t *asked = (void *)decision;

	if (asked->conflict)
		return CONFLICT;
	if (asked->attempted) {
		if (asked->first == first && asked->outer == outer)
			return REPEAT;
		asked->conflict = 1;
		return CONFLICT;
	}
	asked->attempted = 1;
	asked->first = first;
	asked->outer = outer;
	return APPLY;
}

u64 accel_helper_10001(u64 decision, u64 destination, u64 position, u64 d, u64 e) { // bpf_gpu_request_reorder
	nv_gpu_pmm_request_t *asked = &((uvm_bpf_pmm_decision_ctx_t *)decision)->request;

	if (asked->conflict)
		return CONFLICT;
	if (asked->attempted) {
		if (asked->destination == destination && asked->position == position)
			return REPEAT;
		asked->conflict = 1;
		return CONFLICT;
	}
	asked->attempted = 1;
	asked->destination = destination;
	asked->position = position;
	return APPLY;
}

PART u64 record(struct request *request, u64 value) {
	if (request->conflict)
		return CONFLICT;
	if (request->attempted) {
		request->conflict = request->value != value;
		return request->conflict ? CONFLICT : REPEAT;
	}
	request->attempted = 1;
	request->value = value;
	return APPLY;
}

u64 accel_helper_10002(u64 ctx, u64 timeslice_us, u64 c, u64 d, u64 e) { // bpf_nv_gpu_set_timeslice
	return record(&((struct task_request *)ctx)->timeslice_us, timeslice_us);
}

u64 accel_helper_10003(u64 ctx, u64 interleave, u64 c, u64 d, u64 e) { // bpf_nv_gpu_set_interleave
	return record(&((struct task_request *)ctx)->interleave, (u32)interleave);
}

u64 accel_helper_10004(u64 ctx, u64 b, u64 c, u64 d, u64 e) { // bpf_nv_gpu_reject_bind
	((struct nv_gpu_bind_ctx *)ctx)->allow = 0;
	return 0;
}

u64 accel_helper_10005(u64 ctx, u64 timeslice_us, u64 c, u64 d, u64 e) { // bpf_nv_gpu_override_timeslice
	return record(&((struct timeslice_request *)ctx)->timeslice_us, timeslice_us);
}

u64 accel_helper_10006(u64 client, u64 tsg, u64 c, u64 d, u64 e) { // bpf_nv_gpu_preempt_tsg
	u32 task = (u32)tsg - 1; // handles are not 0

	if ((u32)client != (u32)tsg || task >= S->tenant_count || task >= MOST_TASKS)
		return (u64)-EIO;
	S->preempted[task / 64] |= 1ul << task % 64;
	return 0;
}

// Lists of chunks, as in the kernel

PART void empty(struct list_head *list) { list->next = list->prev = list; }
PART _Bool is_empty(const struct list_head *list) { return list->next == list; }

PART void insert(struct list_head *entry, struct list_head *before, struct list_head *after) {
	after->prev = entry;
	entry->next = after;
	entry->prev = before;
	before->next = entry;
}

PART void take(struct list_head *entry) {
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
}

PART void to_head(struct list_head *entry, struct list_head *list) {
	take(entry);
	insert(entry, list, list->next);
}

PART void to_tail(struct list_head *entry, struct list_head *list) {
	take(entry);
	insert(entry, list->prev, list);
}

PART uvm_gpu_root_chunk_t *first_of(struct list_head *list) {
	return (void *)((u8 *)list->next - __builtin_offsetof(uvm_gpu_root_chunk_t, chunk.list));
}

// Eviction

PART void enter_list(uvm_gpu_root_chunk_t *root, u32 list) {
	root->list_generation += root->list_state != list;
	root->list_state = list;
}

PART uvm_bpf_pmm_decision_ctx_t *observed(uvm_gpu_root_chunk_t *root) {
	S->eviction = (uvm_bpf_pmm_decision_ctx_t){
		.pmm = &S->pmm,
		.root_chunk = root,
		.observed = { (u64)&S->pmm, (u64)root, root->list_generation, root->list_state },
	};
	return &S->eviction;
}

PART void refuse(struct access *told) {
	S->refused++;
	told->refused += told->refused < 255;
}

// Do what the policy asked for; false where that is nothing, or makes no sense.
PART _Bool applied(uvm_gpu_root_chunk_t *root, struct access *told) {
	const nv_gpu_pmm_request_t *request = &S->eviction.request;
	_Bool used = request->destination == NV_GPU_PMM_DESTINATION_USED;
	_Bool head = request->position == NV_GPU_PMM_POSITION_HEAD;
	struct list_head *list = used ? &S->pmm.root_chunks.va_block_used : &S->pmm.root_chunks.va_block_unused;

	if (!request->attempted)
		return 0;
	if (request->conflict || (!used && request->destination != NV_GPU_PMM_DESTINATION_UNUSED) ||
	    (!head && request->position != NV_GPU_PMM_POSITION_TAIL)) {
		refuse(told);
		return 0;
	}
	if (head)
		to_head(&root->chunk.list, list);
	else
		to_tail(&root->chunk.list, list);
	enter_list(root, used ? USED : UNUSED);
	return 1;
}

PART void activate(uvm_gpu_root_chunk_t *root, struct access *told) {
	to_tail(&root->chunk.list, &S->pmm.root_chunks.va_block_used);
	enter_list(root, USED);
	u64 arguments[] = { (u64)&S->pmm, (u64)&root->chunk, (u64)observed(root) };
	policy_gpu_block_activate(arguments);
	applied(root, told);
}

PART void access_chunk(uvm_gpu_root_chunk_t *root, struct access *told) {
	u64 arguments[] = { (u64)&S->pmm, (u64)&root->chunk, (u64)observed(root) };
	int action = (int)policy_gpu_block_access(arguments);

	if (action != GPU_ACTION_DEFAULT && action != GPU_ACTION_BYPASS)
		refuse(told);
	else if (!applied(root, told) && !S->eviction.request.attempted && action == GPU_ACTION_DEFAULT)
		to_tail(&root->chunk.list, &S->pmm.root_chunks.va_block_used); // the driver's default: least recently used
}

PART u32 weight(const uvm_page_mask_t *mask) {
	u32 bits = 0;

	for (int word = 0; word < GPU_PAGES_PER_BLOCK / 64; word++)
		bits += __builtin_popcountl(mask->bitmap[word]);
	return bits;
}

PART uvm_gpu_root_chunk_t *evict(struct access *told) {
	struct list_head *used = &S->pmm.root_chunks.va_block_used, *unused = &S->pmm.root_chunks.va_block_unused;
	u64 arguments[] = { (u64)&S->pmm, (u64)used, (u64)unused };
	uvm_gpu_root_chunk_t *root;
	uvm_va_block_t *block;

	policy_gpu_evict_prepare(arguments);
	root = first_of(is_empty(unused) ? used : unused);
	block = root->chunk.va_block;
	told->evicted = (i32)(block - S->blocks);
	told->pages_out = weight(&block->resident);
	S->evictions++;
	S->pages_out += told->pages_out;
	block->resident = (uvm_page_mask_t){};
	block->chunk = 0;
	return root;
}

// Prefetching

PART u32 resident_in(const uvm_perf_prefetch_bitmap_tree_t *tree, u32 first, u32 size) {
	u32 count = 0;

	if (size < 64)
		return __builtin_popcountl(tree->pages.bitmap[first / 64] >> first % 64 & ((1ul << size) - 1));
	for (u32 word = first / 64; word < (first + size) / 64; word++)
		count += __builtin_popcountl(tree->pages.bitmap[word]);
	return count;
}

PART _Bool is_valid(const uvm_bpf_prefetch_decision_t *asked) {
	_Bool none = !asked->first && !asked->outer;

	return asked->attempted && !asked->conflict &&
	       (none || (asked->first < asked->outer && asked->outer <= GPU_PAGES_PER_BLOCK));
}

PART uvm_va_block_region_t region_of(const uvm_bpf_prefetch_decision_t *asked) {
	return (uvm_va_block_region_t){ asked->first, asked->outer };
}

// Subtrees around the page, from the smallest: the driver takes the largest that is dense, a policy decides itself.
PART uvm_va_block_region_t chosen(u32 page, _Bool ask, struct access *told) {
	uvm_va_block_region_t found = {};

	for (u32 size = 2; size <= GPU_PAGES_PER_BLOCK; size *= 2) {
		u32 first = page / size * size, count = resident_in(&S->tree, first, size);
		uvm_va_block_region_t region = { first, first + size };

		if (!ask) {
			if (count * 100 > size * DENSITY_PERCENT)
				found = region;
			continue;
		}
		S->region = region;
		S->prefetch = (uvm_bpf_prefetch_decision_t){};
		u64 arguments[] = { (u64)&S->tree, (u64)&S->whole, (u64)&S->region, count, (u64)&S->prefetch };
		if ((int)policy_gpu_page_prefetch_iter(arguments) != GPU_ACTION_BYPASS)
			continue;
		if (is_valid(&S->prefetch))
			found = region_of(&S->prefetch);
		else
			refuse(told);
	}
	return found;
}

PART uvm_va_block_region_t to_fetch(uvm_va_block_t *block, u32 page, struct access *told) {
	u64 arguments[] = { page, (u64)&S->tree, (u64)&S->whole, (u64)&S->prefetch };

	S->registers[14] = (u64)block; // arguments of the function that policies probe, in the order of struct pt_regs
	S->registers[12] = 1;
	S->registers[9] = page;
	S->registers[8] = (u64)&S->tree;
	policy_uvm_perf_prefetch_get_hint_va_block(S->registers);
	S->tree = (uvm_perf_prefetch_bitmap_tree_t){
		.pages = block->resident, .leaf_count = GPU_PAGES_PER_BLOCK, .level_count = 10,
	};
	S->whole = (uvm_va_block_region_t){ 0, GPU_PAGES_PER_BLOCK };
	S->prefetch = (uvm_bpf_prefetch_decision_t){};
	switch ((int)policy_gpu_page_prefetch(arguments)) {
	case GPU_ACTION_DEFAULT:
		break;
	case GPU_ACTION_ENTER_LOOP:
		return chosen(page, 1, told);
	case GPU_ACTION_BYPASS:
		if (is_valid(&S->prefetch))
			return region_of(&S->prefetch);
		// fall through
	default:
		refuse(told);
	}
	return chosen(page, 0, told);
}

PART void migrate(uvm_va_block_t *block, uvm_va_block_region_t region, struct access *told) {
	u32 moved = 0;

	for (u32 at = region.first; at < region.outer; at = (at | 63) + 1) {
		u32 last = (at | 63) < region.outer ? 63 : (region.outer - 1) % 64;
		u64 pages = (~0ul << at % 64) & (~0ul >> (63 - last)), *there = &block->resident.bitmap[at / 64];

		moved += __builtin_popcountl(pages & ~*there);
		*there |= pages;
	}
	told->pages_in += moved;
	S->pages_in += moved;
}

// One access of the GPU

PART void access_page(u64 number, struct access *told) {
	uvm_va_block_t *block = &S->blocks[number / GPU_PAGES_PER_BLOCK];
	u32 page = number % GPU_PAGES_PER_BLOCK;
	uvm_gpu_root_chunk_t *root;

	if (block->resident.bitmap[page / 64] >> page % 64 & 1) {
		if (S->observe)
			access_chunk((uvm_gpu_root_chunk_t *)block->chunk, told);
		return;
	}
	S->faults++;
	told->outcome = FAULT;
	if (!block->managed_range)
		block->managed_range = &S->current->range;
	if (block->chunk) {
		access_chunk((uvm_gpu_root_chunk_t *)block->chunk, told);
	} else {
		S->misses++;
		told->outcome = MISS;
		root = is_empty(&S->pmm.root_chunks.free) ? evict(told) : first_of(&S->pmm.root_chunks.free);
		root->chunk.va_block = block;
		block->chunk = &root->chunk;
		activate(root, told);
	}
	migrate(block, (uvm_va_block_region_t){ page, page + 1 }, told);
	migrate(block, to_fetch(block, page, told), told);
}

// Called from Python

// engine.py has these sizes, too.
_Static_assert(sizeof(struct state) <= 1024, "_STATE");
_Static_assert(sizeof(uvm_gpu_root_chunk_t) == 56, "_CHUNK");
_Static_assert(sizeof(uvm_va_block_t) == 96, "_BLOCK");
_Static_assert(sizeof(struct tenant) == 48, "_TENANT");
_Static_assert(sizeof(struct access) == 12, "ACCESS");

// The arena is zeros. Tenants have the process ids 1000, 1001...
void model_start(u64 chunks, u64 blocks, u64 tenants, u64 observe) {
	S->chunk_count = chunks;
	S->block_count = blocks;
	S->tenant_count = tenants;
	S->observe = observe;
	S->random = 88172645463325252ul;
	S->chunks = (void *)(accel_arena + 1024);
	S->blocks = (void *)(S->chunks + chunks);
	S->tenants = (void *)(S->blocks + blocks);
	S->current = S->tenants;
	empty(&S->pmm.root_chunks.free);
	empty(&S->pmm.root_chunks.va_block_used);
	empty(&S->pmm.root_chunks.va_block_unused);
	for (u64 at = 0; at < chunks; at++) {
		S->chunks[at].chunk.address = at << 21;
		insert(&S->chunks[at].chunk.list, S->pmm.root_chunks.free.prev, &S->pmm.root_chunks.free);
	}
	for (u64 at = 0; at < blocks; at++) {
		S->blocks[at].start = at << 21;
		S->blocks[at].end = ((at + 1) << 21) - 1;
	}
	for (u64 at = 0; at < tenants; at++) {
		struct tenant *tenant = &S->tenants[at];

		tenant->task.pid = tenant->task.tgid = 1000 + (int)at;
		tenant->mm.owner = &tenant->task;
		tenant->va_space.va_space_mm.mm = &tenant->mm;
		tenant->range.va_range.va_space = &tenant->va_space;
	}
}

// Pages (block * 512 + page in the block) and who accesses them; all numbers were checked.
void model_run(const u64 *pages, const u16 *tenants, u64 count, struct access *told) {
	S->accesses += count;
	for (u64 at = 0; at < count; at++) {
		told[at] = (struct access){ .evicted = -1 };
		S->current = &S->tenants[tenants[at]];
		access_page(pages[at], &told[at]);
	}
}

// What the policy asked for, or else what it is otherwise; nonsense is counted.
PART u64 answer(const struct request *request, u64 least, u64 most, u64 otherwise, u64 *refused) {
	if (!request->attempted)
		return otherwise;
	if (!request->conflict && request->value >= least && request->value <= most)
		return request->value;
	*refused += 1;
	return otherwise;
}

// A tenant makes its task. What the policy makes of it: time slice, interleave level, whether it may run, refused requests.
void model_task(u64 tenant, u64 timeslice_us, u64 interleave, u64 *told) {
	S->current = &S->tenants[tenant];
	S->task = (struct task_request){
		.ctx = { .tsg_id = tenant, .default_timeslice = timeslice_us, .default_interleave = (u32)interleave },
	};
	policy_on_task_init((u64[]){ (u64)&S->task.ctx });
	told[3] = 0;
	told[0] = answer(&S->task.timeslice_us, 1, MOST_TIMESLICE_US, timeslice_us, &told[3]);
	told[1] = answer(&S->task.interleave, 0, MOST_INTERLEAVE, interleave, &told[3]);
	S->bind = (struct nv_gpu_bind_ctx){
		.tsg_id = tenant, .channel_count = 1, .timeslice_us = told[0], .interleave_level = (u32)told[1], .allow = 1,
	};
	policy_on_bind((u64[]){ (u64)&S->bind });
	told[2] = S->bind.allow != 0;
}

// It asks for a time slice. What it gets (0: an error), and refused requests; as in control_timeslice() of the lab's module.
void model_control(u64 tenant, u64 timeslice_us, u64 unused, u64 *told) {
	told[0] = timeslice_us;
	told[1] = 0;
	if (timeslice_us > MOST_TIMESLICE_US)
		return;
	S->current = &S->tenants[tenant];
	S->control = (struct timeslice_request){
		.ctx = {
			.tsg_id = tenant, .requested_timeslice_us = timeslice_us,
			.hclient = (u32)tenant + 1, .htsg = (u32)tenant + 1, .phase = 1,
		},
	};
	policy_on_timeslice_control((u64[]){ (u64)&S->control.ctx });
	told[0] = answer(&S->control.timeslice_us, 1, MOST_TIMESLICE_US, timeslice_us, &told[1]);
	if (told[1])
		told[0] = 0;
}

// It launches a kernel: before (0) or after (1) the job is queued. The tasks that lose the engine: a bit each.
void model_launch(u64 tenant, u64 after, u64 unused, u64 *told) {
	S->current = &S->tenants[tenant];
	for (int word = 0; word < MOST_TASKS / 64; word++)
		S->preempted[word] = 0;
	if (after)
		policy_launched(S->registers);
	else
		policy_launch(S->registers);
	for (int word = 0; word < MOST_TASKS / 64; word++)
		told[word] = S->preempted[word];
}

void model_task_end(u64 tenant, u64 b, u64 c, u64 d) {
	S->current = &S->tenants[tenant];
	S->destroyed.tsg_id = tenant;
	policy_on_task_destroy((u64[]){ (u64)&S->destroyed });
}
