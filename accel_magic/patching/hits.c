/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens at a hit of a patched function: it is counted, measured and recorded in memory shared with the notebook's
 * process and the reader (area.h), which is this library's alone.
 *
 * Code here runs between any two instructions of a program: it uses no vector register, calls no library (except to walk
 * stacks, during which hits are ignored), takes no lock and allocates nothing. What a thread shares with the handlers of
 * signals that interrupt it is ordered by signal fences; `busy` shows them that the thread is here.
 */
#define _GNU_SOURCE
#include "children.h"
#include "hits.h"
#include "stacks.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define RARE __attribute__((noinline, cold))
#define SIGNAL_FENCE() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#define THREAD_LOCAL static __thread __attribute__((tls_model("initial-exec")))

__attribute__((used)) static const char sources[] = SOURCES;

/* Part of a thread: why it has none. */
enum { FREE, JOINING, LEFT_OUT, HIDDEN_THREAD, FORKING };

struct call {
	uint64_t *place; /* where its return address was */
	uint64_t start;	 /* clock ticks */
	const struct point *point;
	uint32_t generation, reserved;
	uint64_t saved[MOST_SAVED];
};

/* One entry per thunk: the return address of its call, and whether it is used. */
struct return_address {
	uint64_t address;
	volatile uint64_t used;
};

struct thread {
	struct counters *counters;
	struct slot *slot;
	uint64_t (*histograms)[BUCKETS];
	int shares_histograms;
	uint32_t index, top; /* `top`: all calls from this one on are free */
	uint32_t walking;    /* the hits are its own: it walks a stack */
	uintptr_t working;   /* a place on the stack of the hit that made it busy */
	uint32_t sweeps;     /* calls to leave out before the table is swept again */
	uintptr_t stack_start, stack_end; /* of the thread's own stack; both 1: not known */
	char text[1024];	      /* of /proc/self/maps: stacks of coroutines are small */
	unsigned char spare[MOST_PAYLOAD]; /* for the payload of a hit that is not recorded */
	struct call calls[CALLS_PER_THREAD];
} __attribute__((aligned(64)));

/* A hit, for its program. */
struct hit {
	const uint64_t *registers; /* as entry.S saved them */
	const uint64_t *stack;	   /* the function's return address, below its arguments on the stack */
	uint64_t *saved;
	uint64_t returned, duration;
	struct thread *thread;
	struct counters *counters;
	unsigned char *payload;
	struct place place;
};

extern struct return_address accel_magic_returns[] HIDDEN;

HIDDEN struct point accel_magic_points[MOST_FUNCTIONS];
HIDDEN struct control *accel_magic_control;
static unsigned char *area;
static struct thread threads[THREADS];
static uint8_t pinned[THREADS]; /* in a forked child: calls of its only thread are in progress there */
static volatile int32_t hidden_tids[64];
static int own_pid;
static long (*vdso_clock)(long, struct timespec *);
static uint32_t calls_generation = 1; /* changes in a forked child, whose calls its parent began */

THREAD_LOCAL struct thread *self; /* NULL: see `part` */
THREAD_LOCAL struct thread *kept; /* while `part` is not FREE */
THREAD_LOCAL int part;
THREAD_LOCAL uint32_t left_out_of; /* the trace in which it found no slot */

extern const ptrdiff_t __rseq_offset __attribute__((weak)); /* glibc 2.35 */
extern const unsigned __rseq_size __attribute__((weak));

static inline long call_kernel(long number, long first, long second, long third, long fourth)
{
	long result;
	register long r10 __asm__("r10") = fourth;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
}

/* One instruction: exact even if a signal's handler hits in between. */
static inline void increment(uint64_t *value)
{
	__asm__ volatile("incq %0" : "+m"(*value) : : "cc");
}

/* Clock */

static inline uint64_t ticks(void)
{
	struct timespec time;

	if (LIKELY(accel_magic_control->clock.uses_tsc))
		return __builtin_ia32_rdtsc();
	vdso_clock(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

static inline uint64_t ns_of(uint64_t passed)
{
	return (uint64_t)(((unsigned __int128)passed * accel_magic_control->clock.mult) >> 32);
}

/* CLOCK_MONOTONIC of a tick; the reader adjusts it while the trace runs. */
static inline uint64_t time_of(uint64_t tick)
{
	const struct clock *clock = &accel_magic_control->clock;
	uint32_t before, tries = 0; /* what writes it may have been killed meanwhile */
	int64_t passed;
	uint64_t time;

	do {
		before = __atomic_load_n(&clock->sequence, __ATOMIC_ACQUIRE);
		passed = (int64_t)(tick - clock->tsc);
		time = clock->ns + (uint64_t)(((__int128)passed * (int64_t)clock->mult) >> 32);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while ((before & 1 || before != clock->sequence) && ++tries < 100);
	return time;
}

static inline unsigned bucket_of(uint64_t ns)
{
	unsigned exponent, bucket;

	if (ns < 16)
		return (unsigned)ns;
	exponent = 63 - (unsigned)__builtin_clzll(ns) - 4;
	bucket = (exponent << 4) + (unsigned)(ns >> exponent);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static inline uint32_t processor(void)
{
	uint32_t low, high, processor;

	if (LIKELY(&__rseq_size && __rseq_size))
		return *(volatile uint32_t *)((uintptr_t)__builtin_thread_pointer() + (uintptr_t)__rseq_offset + 4);
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor));
	return processor & 0xfff;
}

/* Threads */

static int is_hidden(int tid)
{
	for (unsigned at = 0; at < sizeof hidden_tids / sizeof *hidden_tids; at++)
		if (hidden_tids[at] == tid)
			return 1;
	return 0;
}

static int is_gone(const struct slot *slot)
{
	return call_kernel(SYS_tgkill, slot->pid, slot->owner, 0, 0) == -ESRCH;
}

/* The first slot of no thread, or of one that has ended. */
static struct slot *free_slot(int tid, uint32_t *index)
{
	struct slot *slots = (struct slot *)(area + accel_magic_control->slots);

	for (int ended = 0; ended < 2; ended++)
		for (uint32_t at = 0; at < THREADS; at++) {
			struct slot *slot = &slots[at];
			int32_t owner = slot->owner;

			if (pinned[at] || (owner && !(ended && is_gone(slot))))
				continue;
			*index = at;
			if (__atomic_compare_exchange_n(&slot->owner, &owner, tid, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return slot;
		}
	return NULL;
}

static void note_used(uint32_t index)
{
	uint32_t used = accel_magic_control->used_slots;

	while (used <= index && !__atomic_compare_exchange_n(&accel_magic_control->used_slots, &used, index + 1, 0,
							      __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static struct thread *take_slot(void)
{
	const struct control *control = accel_magic_control;
	int tid = (int)call_kernel(SYS_gettid, 0, 0, 0, 0);
	struct thread *thread;
	struct slot *slot;
	uint32_t index, shard;

	if (is_hidden(tid)) {
		part = HIDDEN_THREAD;
		return NULL;
	}
	slot = free_slot(tid, &index);
	if (!slot) {
		__atomic_fetch_add(&accel_magic_control->slotless, 1, __ATOMIC_RELAXED);
		left_out_of = control->generation;
		part = LEFT_OUT;
		return NULL;
	}
	thread = &threads[index];
	slot->pid = own_pid;
	slot->busy = 0;
	slot->generation = control->generation - 1;
	note_used(index);
	thread->slot = slot;
	thread->index = index;
	thread->walking = 0;
	thread->stack_end = 0;
	thread->counters = (struct counters *)(area + control->counters) + (size_t)index * control->most_points;
	thread->shares_histograms = index >= control->shards - 1;
	shard = thread->shares_histograms ? control->shards - 1 : index;
	thread->histograms = (uint64_t(*)[BUCKETS])(area + control->histograms) + (size_t)shard * control->most_points;
	/* Calls of the slot's last owner, on a stack that has moved to another thread, may still return. */
	thread->top = 0;
	for (uint32_t at = 1; at < CALLS_PER_THREAD; at++)
		if (accel_magic_returns[index * CALLS_PER_THREAD + at].used)
			thread->top = at + 1;
	SIGNAL_FENCE();
	part = FREE;
	self = thread;
	return thread;
}

static void become_child(void)
{
	own_pid = (int)call_kernel(SYS_getpid, 0, 0, 0, 0);
	calls_generation++;
	if (kept)
		pinned[kept->index] = 1;
	kept = NULL;
	self = NULL;
}

/* The thread's part in the trace; NULL if it has none. */
static RARE struct thread *join(void)
{
	switch (part) {
	case JOINING:
	case HIDDEN_THREAD:
		return NULL;
	case LEFT_OUT:
		if (left_out_of == accel_magic_control->generation)
			return NULL;
		break;
	case FORKING: /* in a handler of fork; in the child, one that runs before ours */
		if (call_kernel(SYS_getpid, 0, 0, 0, 0) == own_pid)
			return kept;
		become_child();
		break;
	default:
		break;
	}
	part = JOINING;
	SIGNAL_FENCE();
	return take_slot();
}

static RARE void start_over(struct slot *slot)
{
	slot->generation = accel_magic_control->generation;
	call_kernel(SYS_prctl, 16 /* PR_GET_NAME */, (long)slot->comm, 0, 0);
}

/* Stacks */

struct range {
	uintptr_t start, end;
};

static uintptr_t hexadecimal(const char **text)
{
	uintptr_t value = 0;

	for (;; (*text)++) {
		char digit = **text;

		if (digit >= '0' && digit <= '9')
			value = value << 4 | (uintptr_t)(digit - '0');
		else if (digit >= 'a' && digit <= 'f')
			value = value << 4 | (uintptr_t)(digit - 'a' + 10);
		else
			return value;
	}
}

static char *find_end(char *line, size_t size)
{
	for (size_t at = 0; at < size; at++)
		if (line[at] == '\n')
			return line + at;
	return NULL;
}

static int is_main_stack(const char *line, const char *end)
{
	static const char name[] = "[stack]";
	size_t size = sizeof name - 1;

	if ((size_t)(end - line) <= size)
		return 0;
	for (size_t at = 0; at < size; at++)
		if (end[at - size] != name[at])
			return 0;
	return 1;
}

/* Whether a line of /proc/self/maps is the thread's own stack, which has `place`: its main one, or below its thread block. */
static int is_own_stack(const char *line, const char *end, uintptr_t place, struct range *found)
{
	uintptr_t block = (uintptr_t)__builtin_thread_pointer();
	const char *at = line;

	found->start = hexadecimal(&at);
	at++;
	found->end = hexadecimal(&at);
	if (place < found->start || place >= found->end)
		return 0;
	if (is_main_stack(line, end))
		return 1;
	if (block < found->start || block >= found->end || place >= block)
		return 0;
	found->end = block;
	return 1;
}

/* Finds the bounds of the thread's own stack. Of a line longer than `text`, only the beginning is looked at. */
static RARE void find_stack(struct thread *thread, uintptr_t place)
{
	char *text = thread->text, *line, *end;
	size_t size = 0;
	int is_rest = 0;
	long count;
	struct range found;
	int file = (int)call_kernel(SYS_open, (long)"/proc/self/maps", 02000000 /* O_CLOEXEC */, 0, 0);

	thread->stack_start = thread->stack_end = 1;
	if (file < 0)
		return;
	while ((count = call_kernel(SYS_read, file, (long)(text + size), (long)(sizeof thread->text - size), 0)) > 0) {
		size += (size_t)count;
		for (line = text;; line = end + 1) {
			size_t rest = (size_t)(text + size - line);

			end = find_end(line, rest);
			if (!end && rest < sizeof thread->text)
				break;
			if (!is_rest && is_own_stack(line, end ? end : line + rest, place, &found)) {
				thread->stack_start = found.start;
				thread->stack_end = found.end;
				goto out;
			}
			is_rest = !end;
			if (!end)
				end = line + rest - 1;
		}
		size = (size_t)(text + size - line);
		for (size_t at = 0; at < size; at++)
			text[at] = line[at];
	}
out:
	call_kernel(SYS_close, file, 0, 0, 0);
}

static inline uint64_t thunk(const struct thread *thread, uint32_t call)
{
	return (uint64_t)accel_magic_thunks + (thread->index * CALLS_PER_THREAD + call) * THUNK_BYTES;
}

static int on_own_stack(struct thread *thread, uintptr_t place)
{
	if (!thread->stack_end || (thread->stack_end > 1 && place < thread->stack_start)) /* a main stack grows */
		find_stack(thread, place);
	return place >= thread->stack_start && place < thread->stack_end;
}

/*
 * Frees calls whose frame is gone (after an exception, longjmp): those below `place` on the stack, if both are on the
 * thread's own stack. A call at the same place is that of a tail call, unless its return address has been overwritten.
 */
static RARE void free_dead(struct thread *thread, const uint64_t *place)
{
	struct return_address *returns = &accel_magic_returns[thread->index * CALLS_PER_THREAD];

	while (thread->top > 1) {
		uint32_t last = thread->top - 1;
		const uint64_t *other = thread->calls[last].place;

		if (returns[last].used) {
			if (other > place || (other == place && *place == thunk(thread, last)))
				return;
			if (accel_magic_control->copies_stacks || !on_own_stack(thread, (uintptr_t)place) ||
			    !on_own_stack(thread, (uintptr_t)other))
				return;
			returns[last].used = 0;
		}
		thread->top = last;
	}
}

/* Fails with EFAULT before it fails with EINVAL. Reads 8 bytes. */
static int is_readable(uint64_t address)
{
	return call_kernel(SYS_rt_sigprocmask, -1, (long)address, 0, 8) != -EFAULT;
}

/* Looks at aligned words: an unaligned one could reach into another page. The call does not look at address 0. */
int can_read(uint64_t address, unsigned size)
{
	uint64_t first = address & ~7ull, last = (address + size - 1) & ~7ull;

	return first && is_readable(first) && (first >> 12 == last >> 12 || is_readable(last));
}

/*
 * The table is full: frees calls whose return address is not where it was any more, of abandoned coroutines. Returns a
 * free place, or CALLS_PER_THREAD.
 */
static RARE uint32_t sweep(struct thread *thread)
{
	struct return_address *returns = &accel_magic_returns[thread->index * CALLS_PER_THREAD];
	uint32_t found = CALLS_PER_THREAD;

	if (accel_magic_control->copies_stacks || (thread->sweeps && --thread->sweeps))
		return found;
	for (uint32_t at = 1; at < CALLS_PER_THREAD; at++) {
		const uint64_t *place = thread->calls[at].place;

		if (returns[at].used && can_read((uint64_t)place, sizeof *place) && *place == thunk(thread, at))
			continue;
		returns[at].used = 0;
		if (found == CALLS_PER_THREAD)
			found = at;
	}
	while (thread->top > 1 && !returns[thread->top - 1].used)
		thread->top--;
	thread->sweeps = found == CALLS_PER_THREAD ? 1024 : 0;
	return found;
}

/* Programs */

static uint64_t read_memory(uint64_t address, int size)
{
	const void *at = (const void *)address;
	unsigned bytes = (unsigned)(size < 0 ? -size : size);

	if (!can_read(address, bytes))
		return 0;
	switch (size) {
	case 1: return *(const uint8_t *)at;
	case 2: return *(const uint16_t *)at;
	case 4: return *(const uint32_t *)at;
	case -1: return (uint64_t) * (const int8_t *)at;
	case -2: return (uint64_t) * (const int16_t *)at;
	case -4: return (uint64_t) * (const int32_t *)at;
	default: return *(const uint64_t *)at;
	}
}

/* Copies a string that may be cut; an unreadable one is empty, as those of the kernel's programs. */
static void put_string(unsigned char *to, uint64_t address)
{
	for (unsigned at = 0; at < STRING_BYTES; at++, address++) {
		if ((!at || !(address & 4095)) && !can_read(address, 1)) {
			to[0] = 0;
			return;
		}
		to[at] = at == STRING_BYTES - 1 ? 0 : *(const unsigned char *)address;
		if (!to[at])
			return;
	}
}

static uint64_t own_stack(struct hit *hit, int kind)
{
	const struct control *control = accel_magic_control;
	struct stack *table = (struct stack *)(area + control->stacks);
	struct thread *thread = hit->thread;
	uint64_t key;

	if (kind != OP_ENTERED_STACK)
		hit->place.function = NULL;
	thread->walking = 1;
	SIGNAL_FENCE();
	key = kind == OP_PYTHON_STACK
		      ? python_stack(table, control->most_stacks, own_pid, &control->python, &hit->place)
		      : user_stack(table, control->most_stacks, own_pid, &hit->place, &accel_magic_control->not_walked);
	SIGNAL_FENCE();
	thread->walking = 0;
	return key;
}

static int comm_is(uint64_t low, uint64_t high)
{
	uint64_t comm[2] = {0, 0};

	call_kernel(SYS_prctl, 16 /* PR_GET_NAME */, (long)comm, 0, 0);
	return comm[0] == low && comm[1] == high;
}

#define BINARY(result) (top--, *top = (uint64_t)(result))

/*
 * Runs a program; returns 0 if a test failed. Programs were checked by `accel_magic_patching_check`, so neither the stack
 * nor the payload can overflow.
 */
static int run(const struct op *op, struct hit *hit)
{
	/* Below the first values is one that operations with two operands may read, so that the compiler sees no overflow. */
	uint64_t values[MOST_VALUES + 3], *top = values + 2, left, right;

	values[0] = values[1] = values[2] = 0;
	for (;; op++) {
		left = top[-1];
		right = *top;
		switch (op->code) {
		case OP_END: return 1;
		case OP_CONSTANT: *++top = op->value; break;
		case OP_REGISTER: *++top = hit->registers[op->at]; break;
		case OP_STACK_POINTER: *++top = (uint64_t)hit->stack; break;
		case OP_RETURNED: *++top = hit->returned; break;
		case OP_DURATION: *++top = hit->duration; break;
		case OP_PID: *++top = (uint64_t)own_pid; break;
		case OP_TID: *++top = (uint64_t)hit->thread->slot->owner; break;
		case OP_CPU: *++top = processor(); break;
		case OP_SAVED: *++top = hit->saved[op->at]; break;
		case OP_COMM_IS: BINARY(comm_is(left, right)); break;
		case OP_USER_STACK:
		case OP_ENTERED_STACK:
		case OP_PYTHON_STACK: *++top = own_stack(hit, op->code); break;
		case OP_READ: *top = read_memory(*top, op->size); break;
		case OP_NEGATE: *top = -*top; break;
		case OP_INVERT: *top = ~*top; break;
		case OP_NOT: *top = !*top; break;
		case OP_ADD: BINARY(left + right); break;
		case OP_SUBTRACT: BINARY(left - right); break;
		case OP_MULTIPLY: BINARY(left * right); break;
		case OP_AND: BINARY(left & right); break;
		case OP_OR: BINARY(left | right); break;
		case OP_XOR: BINARY(left ^ right); break;
		case OP_LEFT: BINARY(left << (right & 63)); break;
		case OP_RIGHT: BINARY(left >> (right & 63)); break;
		case OP_RIGHT_SIGNED: BINARY((int64_t)left >> (right & 63)); break;
		case OP_DIVIDE: BINARY(left / (right ? right : 1)); break;
		case OP_DIVIDE_SIGNED: BINARY((int64_t)left / ((int64_t)right > 0 ? (int64_t)right : 1)); break;
		case OP_MODULO: BINARY(left % (right ? right : 1)); break;
		case OP_MODULO_SIGNED: BINARY((int64_t)left % ((int64_t)right > 0 ? (int64_t)right : 1)); break;
		case OP_EQUAL: BINARY(left == right); break;
		case OP_UNEQUAL: BINARY(left != right); break;
		case OP_LESS: BINARY(left < right); break;
		case OP_LESS_SIGNED: BINARY((int64_t)left < (int64_t)right); break;
		case OP_LESS_EQUAL: BINARY(left <= right); break;
		case OP_LESS_EQUAL_SIGNED: BINARY((int64_t)left <= (int64_t)right); break;
		case OP_BOTH: BINARY(left && right); break;
		case OP_EITHER: BINARY(left || right); break;
		case OP_CHOOSE:
			top -= 2;
			*top = *top ? left : right;
			break;
		case OP_TEST:
			if (!right)
				return 0;
			top--;
			break;
		case OP_SAVE:
			hit->saved[op->at] = right;
			top--;
			break;
		case OP_PUT:
			*(uint64_t *)(hit->payload + op->at) = right;
			top--;
			break;
		case OP_PUT_STRING:
			put_string(hit->payload + op->at, right);
			top--;
			break;
		case OP_SUM:
			hit->counters->sum += right;
			top--;
			break;
		default: return 0;
		}
	}
}

/* Hits */

static inline void copy16(char *to, const char *from)
{
	__builtin_memcpy(to, from, COMM);
}

static inline struct record *next_record(struct thread *thread, uint64_t head)
{
	const struct slot *slot = thread->slot;

	return (struct record *)(area + slot->ring + (head & (slot->room - 1)) * accel_magic_control->record_bytes);
}

/* Begins a record, which `finish_record` delivers; NULL if there is no room for it. */
static inline struct record *start_record(struct thread *thread, const struct point *point, uint64_t start)
{
	struct slot *slot = thread->slot;
	struct record *record;
	uint64_t head = slot->head;

	if (!LIKELY(head - slot->tail < slot->room))
		return NULL;
	record = next_record(thread, head);
	record->time = time_of(start) + (uint64_t)accel_magic_control->shift_ns;
	record->pid = (uint32_t)slot->pid;
	record->tid = (uint32_t)slot->owner;
	copy16(record->comm, slot->comm);
	record->point = point->id;
	record->cpu = (uint16_t)processor();
	record->page_faults = 0;
	return record;
}

static inline void finish_record(struct slot *slot)
{
	__atomic_store_n(&slot->head, slot->head + 1, __ATOMIC_RELEASE);
}

/* Fills and delivers a record of the hit, if hits are recorded. Returns 0 if the filter does not hold. */
static inline int fill_record(const struct point *point, struct hit *hit, uint64_t start)
{
	struct thread *thread = hit->thread;
	int records = point->records && accel_magic_control->recording;
	struct record *record = records ? start_record(thread, point, start) : NULL;

	if (point->fills) {
		hit->payload = record ? (unsigned char *)&record->duration : thread->spare;
		if (!run(point->fills, hit))
			return 0;
	}
	if (record)
		finish_record(thread->slot);
	else if (records)
		hit->counters->lost++;
	return 1;
}

/*
 * Whether a thread is busy with a hit no more, because a signal's handler that interrupted it has left by longjmp or an
 * exception: then this hit is not below it on the stack.
 */
static RARE int was_left(struct thread *thread, uintptr_t place)
{
	return place >= thread->working && on_own_stack(thread, place) && on_own_stack(thread, thread->working);
}

/* A hit of a signal's handler that interrupted a hit: counted, but neither measured nor recorded. */
static RARE void interrupting(struct thread *thread, const struct point *point, struct hit *hit)
{
	if (thread->walking || (point->tests && !run(point->tests, hit)))
		return;
	if (point->does == MEASURED || point->does == RETURNED) {
		if (!point->counts_at_return)
			increment(&hit->counters->hits);
		increment(&hit->counters->unpaired);
		return;
	}
	increment(&hit->counters->hits);
	if (point->records && accel_magic_control->recording)
		increment(&hit->counters->lost);
}

static inline void intercept(struct thread *thread, const struct point *point, struct hit *hit)
{
	struct return_address *returns = &accel_magic_returns[thread->index * CALLS_PER_THREAD];
	uint64_t *place = (uint64_t *)hit->stack;
	struct call *call;
	uint32_t at;

	if (thread->top > 1 && !LIKELY(thread->calls[thread->top - 1].place > place && returns[thread->top - 1].used))
		free_dead(thread, place);
	at = thread->top > 1 ? thread->top : 1;
	if (!LIKELY(at < CALLS_PER_THREAD))
		at = sweep(thread);
	call = &thread->calls[at];
	if (LIKELY(at < CALLS_PER_THREAD))
		hit->saved = call->saved;
	if (point->tests && !run(point->tests, hit))
		return;
	if (!point->counts_at_return)
		increment(&hit->counters->hits);
	if (!LIKELY(at < CALLS_PER_THREAD && !accel_magic_control->copies_stacks)) {
		increment(&hit->counters->unpaired);
		return;
	}
	returns[at].address = *place;
	returns[at].used = 1;
	call->place = place;
	call->point = point;
	call->generation = calls_generation;
	if (thread->top < at + 1)
		thread->top = at + 1;
	SIGNAL_FENCE();
	*place = thunk(thread, at);
	call->start = ticks();
}

static inline void count(const struct point *point, struct hit *hit)
{
	if (point->tests && !run(point->tests, hit))
		return;
	increment(&hit->counters->hits);
	if (point->does == ENTERED)
		fill_record(point, hit, ticks());
}

/* From entry.S. `registers` are r11, r10, r9, r8, rdi, rsi, rdx, rcx, the return into the stub, rax, and what the stack has. */
__attribute__((used)) HIDDEN void accel_magic_entered(const struct point *point, uint64_t *registers)
{
	struct thread *thread = self;
	struct control *control = accel_magic_control;
	uint64_t saved[MOST_SAVED];
	struct slot *slot;
	struct hit hit;

	if (!LIKELY(control->enabled && point->generation == control->generation))
		return;
	if (!LIKELY(thread) && !(thread = join()))
		return;
	slot = thread->slot;
	hit.registers = registers;
	hit.stack = registers + 10;
	hit.thread = thread;
	hit.counters = &thread->counters[point->index];
	hit.saved = saved;
	hit.place = (struct place){(void *)registers[10], 0, (void *)point->function};
	if (!LIKELY(!slot->busy) && (thread->walking || !was_left(thread, (uintptr_t)registers))) {
		interrupting(thread, point, &hit);
		return;
	}
	slot->busy = 1;
	thread->working = (uintptr_t)registers;
	SIGNAL_FENCE();
	if (LIKELY(control->enabled)) {
		if (!LIKELY(slot->generation == control->generation))
			start_over(slot);
		if (point->does == MEASURED || point->does == RETURNED)
			intercept(thread, point, &hit);
		else
			count(point, &hit);
	}
	SIGNAL_FENCE();
	__atomic_store_n(&slot->busy, 0, __ATOMIC_RELEASE);
}

static inline void measure(struct thread *thread, const struct point *point, struct counters *counters, uint64_t ns)
{
	uint64_t *bucket = &thread->histograms[point->index][bucket_of(ns)];

	counters->total += ns;
	if (ns > counters->longest)
		counters->longest = ns;
	if (LIKELY(!thread->shares_histograms))
		++*bucket;
	else
		__atomic_fetch_add(bucket, 1, __ATOMIC_RELAXED);
}

static inline void finish_call(struct thread *thread, struct call *call, uint64_t end, uint64_t *registers)
{
	const struct point *point = call->point;
	struct hit hit = {
		.registers = registers,
		.stack = call->place,
		.saved = call->saved,
		.returned = registers[9],
		.duration = ns_of(end - call->start),
		.thread = thread,
		.counters = &thread->counters[point->index],
		.place = {(void *)registers[10], 0, NULL},
	};

	/* A filter is tested before anything is filled in or added up. */
	if (!fill_record(point, &hit, point->does == MEASURED ? call->start : end))
		return;
	if (point->counts_at_return)
		increment(&hit.counters->hits);
	if (point->does == MEASURED)
		measure(thread, point, hit.counters, hit.duration);
}

/* From entry.S. `registers` are rbx, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax, and the return address. */
__attribute__((used)) HIDDEN void accel_magic_returned(uint64_t index, uint64_t *registers)
{
	struct thread *owner = &threads[index / CALLS_PER_THREAD], *thread = self;
	struct control *control = accel_magic_control;
	uint32_t at = (uint32_t)(index % CALLS_PER_THREAD);
	struct call *call = &owner->calls[at];
	uint64_t end = ticks();
	struct slot *slot;

	if (!LIKELY(control->enabled && call->generation == calls_generation &&
		    call->point->generation == control->generation))
		goto out;
	if (!LIKELY(thread) && !(thread = join()))
		goto out;
	slot = thread->slot;
	if (!LIKELY(!slot->busy) && (thread->walking || !was_left(thread, (uintptr_t)registers))) {
		increment(&thread->counters[call->point->index].unpaired);
		goto out;
	}
	slot->busy = 1;
	thread->working = (uintptr_t)registers;
	SIGNAL_FENCE();
	if (LIKELY(control->enabled)) {
		if (!LIKELY(slot->generation == control->generation))
			start_over(slot);
		finish_call(thread, call, end, registers);
	}
	SIGNAL_FENCE();
	__atomic_store_n(&slot->busy, 0, __ATOMIC_RELEASE);
out:
	/* A coroutine may return in another thread: then only this call's place becomes free. */
	__atomic_store_n(&accel_magic_returns[index].used, 0, __ATOMIC_RELEASE);
	if (LIKELY(owner == thread && owner->top == at + 1))
		owner->top = at;
}

/* Forks: the child's thread gets another slot, because its parent goes on using this one. */

static void before_fork(void)
{
	if (!self)
		return;
	kept = self;
	part = FORKING;
	SIGNAL_FENCE();
	self = NULL;
}

static void after_fork_in_parent(void)
{
	if (part != FORKING)
		return;
	part = FREE;
	SIGNAL_FENCE();
	self = kept;
}

static void after_fork_in_child(void)
{
	if (call_kernel(SYS_getpid, 0, 0, 0, 0) != own_pid) /* else a hit in an earlier handler has done it */
		become_child();
	if (part == FORKING)
		part = FREE;
}

/* For the notebook's process */

/* Leaves the calling thread out of all traces while `on`. */
EXPORT void accel_magic_patching_hide(int on)
{
	if (on == (part == HIDDEN_THREAD))
		return;
	if (on) {
		kept = self;
		part = HIDDEN_THREAD;
		SIGNAL_FENCE();
		self = NULL;
	} else {
		part = FREE;
		SIGNAL_FENCE();
		self = kept;
	}
}

/* Leaves out a thread that exists already, and has not been hit. */
EXPORT void accel_magic_patching_hide_thread(int tid)
{
	for (unsigned at = 0; at < sizeof hidden_tids / sizeof *hidden_tids; at++)
		if (!hidden_tids[at] || is_gone(&(struct slot){.pid = own_pid, .owner = hidden_tids[at]})) {
			hidden_tids[at] = tid;
			return;
		}
}

/* Whether a program keeps within its values and the payload, and ends. */
EXPORT int accel_magic_patching_check(const struct op *ops, size_t count)
{
	int depth = 0;

	for (size_t at = 0; at < count; at++) {
		const struct op *op = &ops[at];
		int size = op->size < 0 ? -op->size : op->size, takes, gives = 1;

		switch (op->code) {
		case OP_END: return depth == 0 && at == count - 1;
		case OP_REGISTER:
			if (op->at > 9)
				return 0;
			takes = 0;
			break;
		case OP_SAVED:
			if (op->at >= MOST_SAVED)
				return 0;
			takes = 0;
			break;
		case OP_CONSTANT: case OP_STACK_POINTER: case OP_RETURNED: case OP_DURATION: case OP_PID: case OP_TID: case OP_CPU:
		case OP_USER_STACK: case OP_ENTERED_STACK: case OP_PYTHON_STACK:
			takes = 0;
			break;
		case OP_READ:
			if (size != 1 && size != 2 && size != 4 && size != 8)
				return 0;
			takes = 1;
			break;
		case OP_NEGATE: case OP_INVERT: case OP_NOT:
			takes = 1;
			break;
		case OP_TEST: case OP_SUM:
			takes = 1;
			gives = 0;
			break;
		case OP_SAVE:
			if (op->at >= MOST_SAVED)
				return 0;
			takes = 1;
			gives = 0;
			break;
		case OP_PUT: case OP_PUT_STRING:
			if (op->at + (op->code == OP_PUT ? 8 : STRING_BYTES) > MOST_PAYLOAD)
				return 0;
			takes = 1;
			gives = 0;
			break;
		case OP_CHOOSE:
			takes = 3;
			break;
		default:
			if (op->code >= OP_COUNT)
				return 0;
			takes = 2;
		}
		if (depth < takes)
			return 0;
		depth += gives - takes;
		if (depth > MOST_VALUES)
			return 0;
	}
	return 0;
}

static int is_writing(const struct slot *slot)
{
	return slot->owner > 0 && slot->busy && !is_gone(slot);
}

/* After `enabled` was cleared: waits until no thread writes any more. Returns the number of those that still do. */
EXPORT int accel_magic_patching_settle(void)
{
	struct slot *slots = (struct slot *)(area + accel_magic_control->slots);
	struct timespec start, now;
	int writing = 0;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0))
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (uint32_t at = 0; at < accel_magic_control->used_slots; at++) {
		do
			clock_gettime(CLOCK_MONOTONIC, &now);
		while (is_writing(&slots[at]) && now.tv_sec - start.tv_sec < 2 && !sched_yield());
		writing += is_writing(&slots[at]);
	}
	return writing;
}

/* Leaves frames of intercepted returns out of stacks; loads what walking them needs. */
EXPORT void accel_magic_patching_prepare_stacks(void)
{
	prepare_stacks();
	skip_frames((uint64_t)accel_magic_thunks, (uint64_t)accel_magic_thunks + (uint64_t)THREADS * CALLS_PER_THREAD * THUNK_BYTES);
}

EXPORT struct point *accel_magic_patching_points(void)
{
	return accel_magic_points;
}

/* Room for the programs of a trace, which forked children share. */
EXPORT struct op *accel_magic_patching_programs(void)
{
	static struct op programs[MOST_OPS];

	return programs;
}

HIDDEN int accel_magic_self_offset(void)
{
	return (int)((intptr_t)&self - (intptr_t)__builtin_thread_pointer());
}

HIDDEN int accel_magic_counters_offset(void)
{
	return offsetof(struct thread, counters);
}

/* Uses mapped memory. Returns 0, or an errno. */
int accel_magic_patching_join(struct control *control)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) ||
	    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0))
		return errno;
	area = (unsigned char *)control;
	accel_magic_control = control;
	return 0;
}

/*
 * Replaces the memory of a forked child, which was its parent's, by its own, at the same place: stubs have its address. Threads
 * keep their slots.
 */
static int replace_memory(int file, size_t size)
{
	struct slot *slots = (struct slot *)(area + accel_magic_control->slots);
	uint32_t used = accel_magic_control->used_slots;
	int32_t owners[THREADS];

	for (uint32_t at = 0; at < THREADS; at++)
		owners[at] = slots[at].pid == own_pid ? slots[at].owner : 0;
	if (mmap(area, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file, 0) == MAP_FAILED)
		return errno;
	for (uint32_t at = 0; at < THREADS; at++) {
		slots[at].owner = owners[at];
		slots[at].pid = own_pid;
	}
	accel_magic_control->used_slots = used;
	return 0;
}

/* Uses the memory with this descriptor. Returns 0, or an errno. */
EXPORT int accel_magic_patching_use(int file, size_t size)
{
	void *mapped;
	int error;

	if (area)
		return replace_memory(file, size);
	mapped = map_area(file, size);
	error = mapped == MAP_FAILED ? errno : accel_magic_patching_join(mapped);
	if (error && mapped != MAP_FAILED)
		munmap(mapped, size);
	return error;
}

/* Pairs of a tick and a time: the last one, and one from a second before, from which the clock's rate is taken. */
struct instant {
	uint64_t tick, ns;
};

/* The tick and the time of the shortest of three attempts. */
static struct instant instant(void)
{
	struct instant found = {0, 0};
	uint64_t shortest = UINT64_MAX;

	for (int at = 0; at < 3; at++) {
		struct timespec time;
		uint64_t before = __builtin_ia32_rdtsc(), after;

		clock_gettime(CLOCK_MONOTONIC, &time);
		after = __builtin_ia32_rdtsc();
		if (after - before >= shortest)
			continue;
		shortest = after - before;
		found.tick = before + shortest / 2;
		found.ns = (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
	}
	return found;
}

static void set_clock(struct clock *clock, struct instant now, uint64_t mult)
{
	__atomic_store_n(&clock->sequence, clock->sequence | 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	clock->tsc = now.tick;
	clock->ns = now.ns;
	clock->mult = mult;
	__atomic_store_n(&clock->sequence, (clock->sequence | 1) + 1, __ATOMIC_RELEASE);
}

enum { SHORTEST_NS = 10000000, LONGEST_NS = 1000000000 };

/*
 * Adjusts the clock of some memory: by the reader while a trace runs, and before by the notebook's process. CLOCK_MONOTONIC
 * is slewed, so its rate changes.
 */
EXPORT void accel_magic_patching_tick(struct control *control)
{
	static struct instant base, last;
	struct instant now;
	struct timespec pause = {0, SHORTEST_NS};

	if (!control->clock.uses_tsc) {
		set_clock(&control->clock, (struct instant){0, 0}, 1ull << 32);
		return;
	}
	if (!base.ns) {
		base = last = instant();
		nanosleep(&pause, NULL);
	}
	now = instant();
	if (now.ns - base.ns < SHORTEST_NS)
		return;
	set_clock(&control->clock, now, (uint64_t)(((unsigned __int128)(now.ns - base.ns) << 32) / (now.tick - base.tick)));
	if (now.ns - base.ns > LONGEST_NS) {
		base = now.ns - last.ns > LONGEST_NS ? now : last;
		last = now;
	}
}

__attribute__((constructor)) static void start(void)
{
	void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);

	own_pid = getpid();
	vdso_clock = vdso ? (long (*)(long, struct timespec *))dlvsym(vdso, "__vdso_clock_gettime", "LINUX_2.6") : NULL;
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
	accel_magic_join_parent();
}
