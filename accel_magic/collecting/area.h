/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory shared by the notebook's process, the reader process and all traced processes: a memfd that the notebook
 * creates and sizes. In step with collector_area.py, which writes the offsets and capacities into its first page.
 */
#ifndef ACCEL_MAGIC_COLLECTING_AREA_H
#define ACCEL_MAGIC_COLLECTING_AREA_H

#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#define AREA_MAGIC 0x3174746963636101ull
#define AREA_VERSION 7

enum {
	MOST_SPECS = 32,
	SPEC_TEXT = 256,
	DOMAIN_TEXT = 120,
	TASK_TEXT = 376,
	MOST_DEPTH = 120,
	BUCKETS = 640, /* as in bpf/kernel/latency.h */
	COMM = 16,
	STACK_WORDS = 256,
	MOST_FRAMES = 127, /* of a stack; a Python frame takes two words */
	MOST_HOPS = 4,
	MOST_FILES = 64,
	PATH_TEXT = 252,
};

#define COUNTS_FAULTS (1u << 31)

/* Kinds of stacks, in step with bpf/kernel/stacks.h. */
enum { USER_STACK = 1, PYTHON_STACK = 2 };

/* Where the notebook's Python keeps its frames: accel_magic/kernel/stacks/python_layout.py. Offsets in bytes. */
struct python_layout {
	int64_t thread_state;
	uint64_t hops[MOST_HOPS];
	uint64_t shim;
	uint32_t hop_count;
	uint32_t frame, frame_words;		    /* the part of a frame that is read */
	uint32_t code, previous, instruction;	    /* words in that part */
	uint32_t tag, flags, generator, first_line; /* of code objects */
	uint32_t bytecode;
	uint32_t reserved;
};

/* What becomes of tasks that are directly within another one of the trace, or around it. */
enum nesting {
	PLAIN,
	COVERING, /* COVERED tasks directly within these are only counted */
	COVERED,
	NAMING, /* they say what the task within is: all but the first around each are only counted */
};

/* One pattern of the trace; an excluding one removes what others match. */
struct spec {
	uint32_t excludes;
	uint32_t page_faults; /* records have those of the process during the task */
	uint32_t nesting;
	uint32_t reserved;
	char domain[SPEC_TEXT];
	char task[SPEC_TEXT];
};

/* CLOCK_MONOTONIC of a tick of the processor's clock: ns + ((tick - tsc) * mult >> 32). `sequence` is odd while it changes. */
struct clock {
	volatile uint32_t sequence;
	uint32_t uses_tsc; /* 0: ticks are ns of that clock */
	uint64_t tsc, ns, mult;
};

struct control {
	uint64_t magic;
	uint32_t version;
	uint32_t generation; /* number of the trace */
	volatile uint32_t enabled;
	volatile uint32_t recording;
	uint32_t first_point; /* number of the first task in the records */
	uint32_t spec_count;
	int64_t shift_ns; /* added to CLOCK_MONOTONIC for the kernel's time */
	uint64_t size;
	uint64_t libraries, names, hashes, slots, counters, histograms, stacks; /* offsets, bytes */
	uint32_t most_points, most_slots, shards, most_stacks;
	volatile uint32_t points; /* tasks seen in this trace */
	volatile uint32_t slotless; /* threads that found no slot, in this trace */
	uint32_t user_stacks, python_stacks; /* whether records have them */
	uint32_t record_bytes;
	volatile uint32_t not_walked; /* tasks whose native stack is only their caller, in this trace */
	volatile uint32_t library_count; /* libraries that have looked for a collector since there is one */
	volatile uint32_t used_slots;	 /* all others after these have never had an owner */
	struct python_layout python;
	uint8_t token[16];
	/* At the first task of a name that matches, a process notes which files with this ending it maps. */
	char noting_task[32], noted_ending[12];
	volatile uint32_t file_count; /* noted in this trace, also those for which there is no room */
	volatile uint32_t traps;	 /* threads that were within an instruction that was replaced, since there is this memory */
	volatile uint32_t copies_stacks; /* a library copies stacks: no more calls are measured */
	struct clock clock;
	pthread_mutex_t lock __attribute__((aligned(64))); /* of new names; initialized by the notebook's process */
	struct spec specs[MOST_SPECS] __attribute__((aligned(64)));
};

/*
 * A library that has looked for a collector: entry `library_count` % MOST_FILES is the next one. After these, the files
 * that were noted; `pid` is written last.
 */
struct file {
	volatile int32_t pid;
	char path[PATH_TEXT];
};

/* A task that was seen. */
struct name {
	uint32_t reserved_start;
	uint32_t spec; /* the pattern that selected it */
	char domain[DOMAIN_TEXT];
	char task[TASK_TEXT];
	uint64_t reserved;
};

struct frame {
	uint64_t start; /* 0: the task is only counted */
	const void *domain;
	uint32_t point; /* NOT_SELECTED if only its end must be recognized */
	uint32_t page_faults; /* of the process when it began, with COUNTS_FAULTS; 0 if they are not counted */
};

/* A thread. Only it writes here, except for `tail` and, in a slot that nobody owns, `owner`. */
struct slot {
	volatile int32_t owner; /* thread id; 0: free */
	int32_t pid;
	volatile uint32_t busy; /* the thread may be writing */
	uint32_t generation;
	uint64_t ring; /* offset in the area, bytes */
	uint64_t room; /* records, a power of two; 0: none */
	char comm[COMM];
	uint32_t depth; /* open tasks, including those beyond MOST_DEPTH */
	uint32_t reserved;
	volatile uint64_t head __attribute__((aligned(64))); /* records written */
	volatile uint64_t tail __attribute__((aligned(64))); /* records read */
	struct frame frames[MOST_DEPTH] __attribute__((aligned(64)));
};

struct counters {
	uint64_t hits, lost, total, longest;
	uint64_t unpaired, sum; /* of patched functions: calls that were not measured; of a value of their calls */
	uint64_t reserved[2];
};

/* A distinct stack. `key` is claimed first; `words` is written last, and 0 if the process was killed in between. */
struct stack {
	volatile uint64_t key;
	uint32_t kind; /* upper bits: the process that the addresses belong to */
	volatile uint32_t words;
	uint64_t word[STACK_WORDS];
};

/* As a ring buffer of the kernel's programs delivers it: am_record in bpf/kernel/common.h. */
struct record {
	uint64_t reserved_header;
	uint64_t time;
	uint32_t pid, tid;
	char comm[COMM];
	uint16_t point, cpu;
	uint32_t page_faults;
	int64_t duration;
	uint64_t user_stack, python_stack; /* keys; in records of traces with stacks */
};

/* Maps it far from libraries: landing pads of patched functions are at given distances from them (patching/patch.c). */
static inline void *map_area(int file, size_t size)
{
	const int access = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_NORESERVE, exactly = 0x100000;

	for (uintptr_t place = 1ull << 44; place < 1ull << 45; place += 1ull << 36) {
		void *found = mmap((void *)place, size, access, flags | exactly /* MAP_FIXED_NOREPLACE */, file, 0);

		if (found == (void *)place)
			return found;
		if (found != MAP_FAILED) /* a kernel that does not know the flag */
			munmap(found, size);
	}
	return mmap(NULL, size, access, flags, file, 0);
}

#endif
