/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all kernel programs of %%ktrace: maps, scope, counting, and the head of a record.
 *
 * Maps are referenced by placeholders (AM_MAP, AM_VALUE) that the engine replaces by file descriptors when it loads the
 * program, so one compiled program serves any number of traces.
 *
 * Constants defined before this header: AM_POINTS (power of two >= number of probe points), AM_CPUS (power of two >=
 * possible CPUs).
 */
#ifndef ACCEL_MAGIC_COMMON_H
#define ACCEL_MAGIC_COMMON_H

#include <linux/types.h>
#include <linux/ptrace.h>

#define AM_INLINE static inline __attribute__((always_inline))
#define AM_STRING_(x) #x
#define AM_STRING(x) AM_STRING_(x)
/* BCC treats functions in sections with this prefix as programs. */
#define AM_PROGRAM(name) __attribute__((section(".bpf.fn." AM_STRING(name)), used)) int name
/*
 * Functions shared by programs are compiled once: a program calls a function by its number, and the engine appends the
 * function's code to the program. Shared functions call each other in the same way.
 */
#define AM_SHARED(type, name) __attribute__((section(".bpf.fn." AM_STRING(name)), used)) type name

/* Placeholders, kept in step with accel_magic/kernel/load/relocation.py. */
#define AM_PLACEHOLDER(n) (0x414d0000 + (n))
#define AM_CONTROL 1
#define AM_COUNTERS 2
#define AM_SCOPE 3
#define AM_INFLIGHT 4
#define AM_HISTOGRAMS 5
#define AM_SYSCALLS 6
#define AM_STACKS 7
#define AM_SCRATCH 8
#define AM_WAITS 9
#define AM_CALLERS 10
#define AM_OWN_THREADS 11
#define AM_SECRET 12
#define AM_OBJECTS 13
#define AM_THREAD_COUNTS 14
#define AM_RING 16 /* + the index of the record size */
#define AM_MAP(n) bpf_pseudo_fd(1, AM_PLACEHOLDER(n))
/* The address of a one-element array's value, without a lookup at run time. */
#define AM_VALUE(n) ((void *)bpf_pseudo_fd(2, AM_PLACEHOLDER(n)))
/* Numbers of shared functions, kept in step with accel_magic/kernel/load/shared_functions.py. */
#define AM_DO_KEEP_STACK 1
#define AM_DO_HASH_WORDS 2
#define AM_DO_TAKE_PYTHON 3
#define AM_DO_FRAME_STEP 4
#define AM_DO_LINE_STEP 5
#define AM_DO_END_CALL 6
#define AM_DO_HIDE 7
#define AM_FUNCTION(n) ((void *)(0x414e0000UL + (n)))
#define AM_ADDRESS_OF(n) ((void *)bpf_pseudo_fd(4, 0x414e0000 + (n)))

/*
 * Calls a step function (index, state) up to `times` times, until it returns 1. With bpf_loop (Linux 5.17) the verifier
 * checks one step; without it, it checks all of them, for each program.
 */
#if AM_LOOPS
static long (*am_loop)(u32 times, void *step, void *state, u64 flags) = (void *)181;
#define AM_STEP(name) AM_SHARED(long, name)
#define AM_REPEAT(times, name, number, state) am_loop(times, AM_ADDRESS_OF(number), state, 0)
#else
#define AM_STEP(name) AM_INLINE long name
#define AM_REPEAT(times, name, number, state)                                                                  \
	_Pragma("clang loop unroll(disable)") for (u32 am_at = 0; am_at < (times) && !name(am_at, state); am_at++) {}
#endif

/* If a text uses BCC's names for these helpers, BCC reads all kernel symbols, which takes longer than compiling. */
static long (*am_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*am_read_user_str)(void *to, u32 size, const void *from) = (void *)114;
/* Missing in BCC's header. The verifier knows the result's type, so members of the task can be read directly. */
static void *(*am_current_task)(void) = (void *)158;

/*
 * Keeps a program's variables on the stack of its task. From Linux 6.13 on, a program with 64 bytes of them or more has a
 * stack per processor, also in user-space probes, where a thread that is preempted in the program would find there what
 * the next one to run it has written. A program with a tail call never has such a stack, even if the verifier
 * knows that the call is not reached, as here (kernel/bpf/verifier.c, check_max_stack_depth).
 */
static long (*am_tail_call)(void *ctx, void *programs, u32 index) = (void *)12;
#define AM_KEEP_TASK_STACK                                                                                     \
	{                                                                                                      \
		u64 never;                                                                                     \
		asm volatile("%0 = 0" : "=r"(never)); /* known to the verifier, not to the compiler */         \
		if (never)                                                                                     \
			am_tail_call(ctx, 0, 0);                                                               \
	}

/* Written by user space through mmap; accel_magic/kernel/attachment.py has the same fields. */
struct am_control {
	u32 enabled;	  /* hits are counted */
	u32 recording;	  /* hits are recorded too */
	u32 starter;	  /* the thread that is starting a thread of the tool */
	u32 ignored_tgid[3]; /* the reader, the compiler, and the writer of a dataset */
};

struct am_counters {
	u64 hits[AM_CPUS][AM_POINTS];
	u64 lost[AM_CPUS][AM_POINTS];
	u64 unpaired[AM_CPUS][AM_POINTS];
	u64 totals[AM_CPUS][AM_POINTS]; /* sums of a value of the hits */
};

/*
 * A set of ids, of processes in scope or of the tool's threads: a byte per id, not 0 for those in the set. All ids up to
 * PID_MAX_LIMIT. Bytes take fewer instructions per hit than bits, and are written without a lock.
 */
#define AM_PIDS (1 << 22)

struct am_ids {
	u8 marks[AM_PIDS];
};

struct am_record {
	u64 time;
	u32 pid;
	u32 tid;
	char comm[16];
	u16 point;
	u16 cpu;
	u32 reserved;
};

AM_INLINE int am_enabled(void)
{
	struct am_control *control = AM_VALUE(AM_CONTROL);

	return control->enabled;
}

AM_INLINE int am_holds(struct am_ids *set, u32 id)
{
	return set->marks[id & (AM_PIDS - 1)];
}

/* The tool's threads, and user threads while they work for it: accel_magic/kernel/own_threads.py. */
AM_INLINE int am_is_tracing_thread(u32 tid)
{
	return am_holds(AM_VALUE(AM_OWN_THREADS), tid);
}

/* Hits of the tracer itself are never counted. */
AM_INLINE int am_is_tracer(u32 pid, u32 tid)
{
	struct am_control *control = AM_VALUE(AM_CONTROL);

	return am_is_tracing_thread(tid) || pid == control->ignored_tgid[0] || pid == control->ignored_tgid[1] ||
	       pid == control->ignored_tgid[2];
}

#ifdef AM_TASK_STATUS
#define AM_TS_COMPAT 2

/*
 * Whether a task is in a 32-bit system call. These have different numbers, and 64-bit programs can make them too
 * (int $0x80). AM_TASK_STATUS is the offset of thread_info.status in struct task_struct, from the kernel's BTF.
 */
AM_INLINE int am_in_32_bit_call(const char *task)
{
	return *(const volatile u32 *)(task + AM_TASK_STATUS) & AM_TS_COMPAT;
}
#endif

/* Whose hits a program counts: AM_TREE. */
#define AM_EVERYBODY 0
#define AM_OWN 1
#define AM_OWN_AND_KERNEL 2 /* for_user.h */

/*
 * In a trace for another user, only processes that this user could look into with ptrace: those that the kernel calls
 * dumpable. A setuid program, or one that may not be read, is not, even after it has dropped its rights.
 * AM_DUMPABLE_IN is the offset in struct task_struct of a pointer, AM_DUMPABLE_AT that of a word in what it points to,
 * whose lowest two bits are 1 for such a process: accel_magic/kernel/scope.py.
 */
AM_INLINE int am_is_dumpable(void)
{
#ifdef AM_DUMPABLE_IN
	const char *task = am_current_task();
	const char *state = *(const char *const volatile *)(task + AM_DUMPABLE_IN);

	return state && (*(const volatile u32 *)(state + AM_DUMPABLE_AT) & 3) == 1;
#else
	return 1;
#endif
}

/* Whether the current process, whose id is `pid`, is in scope. */
AM_INLINE int am_in_tree(u32 pid)
{
	return am_holds(AM_VALUE(AM_SCOPE), pid) && am_is_dumpable();
}

/*
 * Each CPU has its own row of counters. Programs on tracepoints and kprobes never interrupt each other on a CPU (the
 * kernel skips and reports the inner one), so they add without atomics; in a uprobe program, a task can be preempted.
 */
AM_INLINE void am_add(u64 *row, u32 cpu, u32 point, u64 value, int atomic)
{
	u64 *slot = row + (cpu & (AM_CPUS - 1)) * AM_POINTS + (point & (AM_POINTS - 1));

	if (atomic)
		__sync_fetch_and_add(slot, value);
	else
		*slot += value;
}

AM_INLINE void am_count(u64 *row, u32 cpu, u32 point, int atomic)
{
	am_add(row, cpu, point, 1, atomic);
}

/* Hits of a thread at a point that is only counted, and for measured calls, the sum of their durations. */
struct am_thread_point {
	u32 tid;
	u32 point;
};

struct am_thread_count {
	u64 hits;
	u64 total;
	u32 pid;
	u32 reserved;
};

/* What does not fit into the table is only counted for all threads together. */
AM_INLINE void am_count_in_thread(u32 pid, u32 tid, u32 point, u64 duration)
{
	struct am_thread_point key = {.tid = tid, .point = point};
	struct am_thread_count first = {.hits = 1, .total = duration, .pid = pid};
	struct am_thread_count *found = bpf_map_lookup_elem_(AM_MAP(AM_THREAD_COUNTS), &key);

	/* Only the thread itself adds its key. */
	if (!found) {
		bpf_map_update_elem_(AM_MAP(AM_THREAD_COUNTS), &key, &first, BPF_NOEXIST);
		return;
	}
	__sync_fetch_and_add(&found->hits, 1);
	__sync_fetch_and_add(&found->total, duration);
}

AM_INLINE void am_fill(struct am_record *record, u64 time, u64 pid_tgid, u32 cpu, u32 point)
{
	record->time = time;
	record->pid = pid_tgid >> 32;
	record->tid = pid_tgid;
	record->point = point;
	record->cpu = cpu;
	bpf_get_current_comm(record->comm, sizeof(record->comm));
}

#define AM_COMM_IS(low, high) (((u64 *)am_comm)[0] == (low) && ((u64 *)am_comm)[1] == (high))
/* A field of the tracepoint's record, which is at AM_FIELDS. */
#define AM_FIELD(type, offset) (*(type *)((char *)AM_FIELDS + (offset)))

#endif
