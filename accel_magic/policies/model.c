// The memory of a GPU with unified memory, behind the hooks of gpu_ext's policies. Nothing is moved, only counted.
//
// Compiled to LLVM IR by tools/build_policy_model, and linked with a translated policy, so that its hooks are inlined.
// All that a policy can see lies in one arena; addresses outside of it read as zeros.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned long __u64;
typedef int __s32;
typedef _Bool bool;

#define NULL ((void *)0)
#define true 1
#define false 0
#define PART static inline __attribute__((always_inline))
#define __always_inline inline __attribute__((always_inline))
#define hweight64 __builtin_popcountl
#define container_of(member_address, type, member) \
	((type *)((u8 *)(member_address) - __builtin_offsetof(type, member)))
#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))

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

// Lists, as in the kernel

PART void INIT_LIST_HEAD(struct list_head *list) { list->next = list->prev = list; }
PART _Bool list_empty(const struct list_head *list) { return list->next == list; }

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

PART void list_move(struct list_head *entry, struct list_head *list) {
	take(entry);
	insert(entry, list, list->next);
}

PART void list_move_tail(struct list_head *entry, struct list_head *list) {
	take(entry);
	insert(entry, list->prev, list);
}

#include "gpu_driver.h"
#include "gpu_memory.h"

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

// At the start of the arena. In Python: `_STATE` and `_FIRST_COUNTER` in model_engine.py.
struct state {
	struct gpu_memory memory;
	u64 tenant_count;
	struct tenant *tenants;
	struct tenant *current;
	u64 random;
	struct task_request task;
	struct nv_gpu_bind_ctx bind;
	struct nv_gpu_task_destroy_ctx destroyed;
	struct timeslice_request control;
	u64 preempted[MOST_TASKS / 64]; // tasks that lost the engine in the current launch
	u64 registers[21]; /* struct pt_regs */
};

// Where the arena is; constants in the linked module.
extern const u64 accel_arena, accel_arena_size;

// The policy's hooks, and the function that a policy may probe for the block whose page faulted. Each is defined by
// model_engine.py: 0 (the driver's default) where the policy has none.
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

// The policy's hooks about memory

int accel_lab_page_prefetch(uvm_page_index_t page, uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *max,
			    uvm_bpf_prefetch_decision_t *decision) {
	return (int)policy_gpu_page_prefetch((u64[]){ page, (u64)tree, (u64)max, (u64)decision });
}

int accel_lab_page_prefetch_iter(uvm_perf_prefetch_bitmap_tree_t *tree, uvm_va_block_region_t *max,
				 uvm_va_block_region_t *region, u32 count, uvm_bpf_prefetch_decision_t *decision) {
	return (int)policy_gpu_page_prefetch_iter(
		(u64[]){ (u64)tree, (u64)max, (u64)region, count, (u64)decision });
}

int accel_lab_block_activate(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision) {
	return (int)policy_gpu_block_activate((u64[]){ (u64)pmm, (u64)chunk, (u64)decision });
}

int accel_lab_block_access(uvm_pmm_gpu_t *pmm, uvm_gpu_chunk_t *chunk, uvm_bpf_pmm_decision_ctx_t *decision) {
	return (int)policy_gpu_block_access((u64[]){ (u64)pmm, (u64)chunk, (u64)decision });
}

int accel_lab_evict_prepare(uvm_pmm_gpu_t *pmm) {
	u64 used = (u64)&pmm->root_chunks.va_block_used, unused = (u64)&pmm->root_chunks.va_block_unused;

	return (int)policy_gpu_evict_prepare((u64[]){ (u64)pmm, used, unused });
}

// A probe finds the arguments in the registers, whose order is that of struct pt_regs.
void uvm_perf_prefetch_get_hint_va_block(uvm_va_block_t *block, void *context, u32 new_residency, void *faulted_pages,
					 u32 page, uvm_perf_prefetch_bitmap_tree_t *tree) {
	S->registers[14] = (u64)block;
	S->registers[12] = new_residency;
	S->registers[9] = page;
	S->registers[8] = (u64)tree;
	policy_uvm_perf_prefetch_get_hint_va_block(S->registers);
	gpu_fill_tree(tree, block);
}

// Called from Python

// model_engine.py has these sizes, too.
_Static_assert(sizeof(struct state) <= 1024, "_STATE");
_Static_assert(sizeof(uvm_gpu_root_chunk_t) == 56, "_CHUNK");
_Static_assert(sizeof(uvm_va_block_t) == 96, "_BLOCK");
_Static_assert(sizeof(struct tenant) == 48, "_TENANT");
_Static_assert(__builtin_offsetof(struct state, memory.counts) == 0, "_FIRST_COUNTER");
_Static_assert(sizeof(struct accel_lab_decision) == 12, "ACCESS");

// The arena is zeros. Tenants have the process ids 1000, 1001...
void model_start(u64 chunks, u64 blocks, u64 tenants, u64 observe) {
	struct gpu_memory *memory = &S->memory;
	uvm_gpu_root_chunk_t *roots = (void *)(accel_arena + 1024);

	S->tenant_count = tenants;
	S->random = 88172645463325252ul;
	memory->observe = observe;
	memory->blocks = (void *)(roots + chunks);
	S->tenants = (void *)(memory->blocks + blocks);
	S->current = S->tenants;
	INIT_LIST_HEAD(&memory->pmm.root_chunks.free);
	INIT_LIST_HEAD(&memory->pmm.root_chunks.va_block_used);
	INIT_LIST_HEAD(&memory->pmm.root_chunks.va_block_unused);
	for (u64 at = 0; at < chunks; at++) {
		roots[at].chunk.address = at << 21;
		insert(&roots[at].chunk.list, memory->pmm.root_chunks.free.prev, &memory->pmm.root_chunks.free);
	}
	for (u64 at = 0; at < blocks; at++) {
		memory->blocks[at].start = at << 21;
		memory->blocks[at].end = ((at + 1) << 21) - 1;
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
void model_run(const u64 *pages, const u16 *tenants, u64 count, struct accel_lab_decision *told) {
	S->memory.counts.accesses += count;
	for (u64 at = 0; at < count; at++) {
		S->current = &S->tenants[tenants[at]];
		told[at] = gpu_access_page(&S->memory, pages[at], tenants[at], &S->current->range).decision;
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
