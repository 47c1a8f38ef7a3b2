/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A collector for Intel's Instrumentation and Tracing Technology (ITT) API. A library built with that API loads the file
 * named by INTEL_LIBITTNOTIFY64 at its first call and has __itt_api_init fill in its function pointers.
 *
 * Tasks are counted, measured and recorded in memory shared with the notebook (area.h); a task costs no system call and
 * takes no lock, except when a thread or a name is seen for the first time in a trace, or page faults are counted. The declarations of the ITT API
 * are our own; the interface is documented in https://github.com/intel/ittapi.
 */
#define _GNU_SOURCE
#include "area.h"
#include "stacks.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/membarrier.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define VARIABLE "ACCEL_MAGIC_ITT"

/* The ITT API: structures that its callers read. */
struct id {
	uint64_t words[3];
};

struct domain {
	volatile int flags; /* 0: the caller does not call */
	const char *name;
	void *wide_name;
	int extra;
	void *pointer;
	struct domain *next;
};

struct handle {
	const char *text;
	void *wide_text;
	int extra;
	void *pointer;
	struct handle *next;
};

struct api_entry {
	const char *name;
	void **function;
	void *first, *without;
	int group;
};

struct api_table {
	unsigned char magic[8];
	unsigned long major, minor, build;
	volatile long initialized, mutex_initialized, counter;
	pthread_mutex_t mutex;
	void *library, *on_error;
	const char **paths;
	struct api_entry *entries;
};

enum {
	NOT_SELECTED = (1 << 28) - 1,
	HANDLE_LISTS = 4096,
	SETTLED_S = 1,
	CACHE_LINE = 64,
};

/* In `chosen`, beside the point. */
#define FAULTS_CHOSEN (1u << 31)
#define NESTING_SHIFT 28
#define NESTING(chosen) ((chosen) >> NESTING_SHIFT & 3u)
#define POINT(chosen) ((chosen) & NOT_SELECTED)

/*
 * What a trace selects of a domain's tasks of one name. The name's handle points to a list of them, and the first one lies
 * behind it, so that what a task needs of both is one cache line: inferences evict it between two tasks.
 */
struct choice {
	uint32_t area_number;	  /* the area of the trace, as in `area_number` */
	volatile uint16_t bucket; /* of the histogram, in which the last of these tasks was counted */
	volatile uint16_t named;  /* the NAMING task around it that was recorded last, and its outermost task; 0: none */
	const struct domain *domain;
	volatile uint64_t chosen; /* upper half: the trace's generation; lower half: point, nesting, FAULTS_CHOSEN */
	struct choice *next;
};

struct own_handle {
	struct handle handle;
	struct choice first;
};

struct thread {
	const struct control *of; /* the area that it has joined */
	struct slot *slot;
	struct counters *counters;
	uint64_t (*histograms)[BUCKETS];
	int shares_histograms; /* with other threads */
	struct choice *open[MOST_DEPTH]; /* of the open tasks */
};

__attribute__((used)) static const char sources[] = SOURCES;

static unsigned char *area;
static struct control *control;
static uint32_t area_number; /* of the areas that this process has used */
static int is_tracer; /* the area was created by this process, which switches its own domains */
static int on;        /* flags of selected domains */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of everything below */
static struct domain *domains;
static struct handle *handles[HANDLE_LISTS]; /* by hash of the text */

static pthread_key_t leaving;
static int can_leave; /* there is such a key */
static __thread struct thread *self __attribute__((tls_model("initial-exec")));

static locale_t bytes_locale;

/* A task of the user's own Python code. */
static struct domain *python;

static inline uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
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

/* What the patterns select */

static int is_ascii(const char *text)
{
	for (; text && *text; text++)
		if ((unsigned char)*text > 127)
			return 0;
	return 1;
}

static uint32_t selecting_here(const char *domain, const char *task)
{
	uint32_t found = NOT_SELECTED;

	for (uint32_t at = 0; at < control->spec_count && at < MOST_SPECS; at++) {
		const struct spec *spec = &control->specs[at];

		if (fnmatch(spec->domain, domain, 0) || (task && fnmatch(spec->task, task, 0)))
			continue;
		if (spec->excludes && task)
			return NOT_SELECTED;
		if (!spec->excludes && found == NOT_SELECTED)
			found = at;
	}
	return found;
}

/* The first pattern that selects a task, or, without a task, may select tasks of the domain. */
static uint32_t selecting(const char *domain, const char *task)
{
	uint32_t found;
	locale_t before;

	/* In other locales, fnmatch converts the pattern and the text to wide characters first. */
	if (!bytes_locale || !is_ascii(domain) || !is_ascii(task))
		return selecting_here(domain, task);
	before = uselocale(bytes_locale);
	found = selecting_here(domain, task);
	uselocale(before);
	return found;
}

static uint64_t hash_of(const char *domain, const char *task)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *domain; domain++)
		hash = (hash ^ (unsigned char)*domain) * 0x100000001b3ull;
	hash = (hash ^ 0xff) * 0x100000001b3ull;
	for (; *task; task++)
		hash = (hash ^ (unsigned char)*task) * 0x100000001b3ull;
	return hash ? hash : 1;
}

/* The number of a selected task, which is the same in all processes of a trace. The area is locked. */
static uint32_t point_of(const char *domain, const char *task)
{
	uint32_t spec = selecting(domain, task);
	uint64_t *hashes = (uint64_t *)(area + control->hashes);
	struct name *made;
	uint64_t hash = hash_of(domain, task);
	uint32_t last = control->most_points - 1, at;

	if (spec == NOT_SELECTED)
		return NOT_SELECTED;
	for (at = 0; at < control->points && at < last; at++)
		if (hashes[at] == hash)
			return at;
	made = (struct name *)(area + control->names) + at;
	if (at == last) { /* all others */
		domain = "";
		task = "[other tasks]";
	} else {
		hashes[at] = hash;
	}
	made->spec = spec;
	snprintf(made->domain, sizeof made->domain, "%s", domain);
	snprintf(made->task, sizeof made->task, "%s", task);
	__atomic_store_n(&control->points, at + 1, __ATOMIC_RELEASE);
	return at;
}

static void lock_area(void)
{
	if (pthread_mutex_lock(&control->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&control->lock); /* at worst, a name is incomplete */
}

static void share_lock(void)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&control->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

/* The only system call of a task, for patterns that ask for it: of inferences, not of their layers. */
static uint32_t page_faults(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		return 0;
	return (uint32_t)(usage.ru_minflt + usage.ru_majflt) | COUNTS_FAULTS;
}

/* A point with what its pattern asks for, as in `chosen`. */
static uint32_t with_options(uint32_t point)
{
	const struct name *name = (const struct name *)(area + control->names) + point;
	const struct spec *spec = &control->specs[name->spec % MOST_SPECS];

	return point | (spec->nesting & 3u) << NESTING_SHIFT |
	       (control->recording && spec->page_faults ? FAULTS_CHOSEN : 0);
}

static int is_noted(const struct file *files, uint32_t count, int pid, const char *path)
{
	for (uint32_t at = 0; at < count && at < MOST_FILES; at++)
		if (files[at].pid == pid && !strcmp(files[at].path, path))
			return 1;
	return 0;
}

/* The notebook's process looks itself. */
static void note_files(const char *task)
{
	struct file *files = (struct file *)(area + control->libraries) + MOST_FILES;
	size_t ending = strnlen(control->noted_ending, sizeof control->noted_ending), size;
	char line[PATH_TEXT + 128], *path;
	uint32_t at;
	FILE *maps;

	if (is_tracer || !ending || fnmatch(control->noting_task, task, 0))
		return;
	maps = fopen("/proc/self/maps", "re");
	if (!maps)
		return;
	while (fgets(line, sizeof line, maps)) {
		path = strchr(line, '/');
		size = path ? strcspn(path, "\n") : 0;
		if (size <= ending || size >= PATH_TEXT || memcmp(path + size - ending, control->noted_ending, ending))
			continue;
		path[size] = 0;
		if (is_noted(files, control->file_count, getpid(), path))
			continue;
		at = __atomic_fetch_add(&control->file_count, 1, __ATOMIC_RELAXED);
		if (at >= MOST_FILES)
			break;
		memcpy(files[at].path, path, size + 1);
		__atomic_store_n(&files[at].pid, getpid(), __ATOMIC_RELEASE);
	}
	fclose(maps);
}

static void look_up(struct choice *choice, const struct domain *domain, const char *task)
{
	uint32_t point;

	lock_area();
	point = point_of(domain->name, task);
	choice->named = 0;
	choice->chosen = (uint64_t)control->generation << 32 | (point == NOT_SELECTED ? point : with_options(point));
	pthread_mutex_unlock(&control->lock);
	if (point != NOT_SELECTED)
		note_files(task);
}

static struct choice *found_in(struct choice *const *list, const struct domain *domain)
{
	struct choice *choice = __atomic_load_n(list, __ATOMIC_ACQUIRE);

	while (choice && !(__atomic_load_n(&choice->domain, __ATOMIC_ACQUIRE) == domain &&
			   choice->area_number == area_number))
		choice = choice->next;
	return choice;
}

static struct choice *added_to(struct choice **list, const struct domain *domain, const char *task)
{
	struct choice *choice, *first;

	pthread_mutex_lock(&lock);
	choice = found_in(list, domain); /* another thread may have added it */
	if (!choice) {
		first = *list;
		choice = first && !first->domain ? first : calloc(1, sizeof *choice);
		if (choice) {
			choice->area_number = area_number;
			look_up(choice, domain, task);
			__atomic_store_n(&choice->domain, domain, __ATOMIC_RELEASE);
			if (choice != first) {
				choice->next = first;
				__atomic_store_n(list, choice, __ATOMIC_RELEASE);
			}
		}
	}
	pthread_mutex_unlock(&lock);
	return choice;
}

/* A handle is of one name in all threads, and seldom used with a second domain. Returns NULL if there is no memory. */
static struct choice *choice_of(const struct domain *domain, const struct handle *handle, uint32_t generation)
{
	struct choice **list = (struct choice **)(handle ? &handle->pointer : &domain->pointer);
	struct choice *choice = found_in(list, domain);
	const char *task = handle ? handle->text : "?";

	if (!LIKELY(choice))
		return added_to(list, domain, task);
	if (!LIKELY(choice->chosen >> 32 == generation))
		look_up(choice, domain, task);
	return choice;
}

/* Threads */

static void enter(struct slot *slot)
{
	slot->busy = 1;
	/* accel_magic_itt_settle has all CPUs execute a barrier, so none is needed here. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static void leave(struct slot *slot)
{
	__atomic_store_n(&slot->busy, 0, __ATOMIC_RELEASE);
}

/* The thread's own frames, which do not change while it is here. */
int can_read(uint64_t address, unsigned size)
{
	(void)address, (void)size;
	return 1;
}

static void leave_for_good(void *value)
{
	struct thread *thread = value;

	self = NULL;
	__atomic_store_n(&thread->slot->owner, 0, __ATOMIC_RELEASE);
	free(thread);
}

/* The first free slot, if possible one whose records have all been read. */
static struct slot *free_slot(int tid)
{
	struct slot *slots = (struct slot *)(area + control->slots);

	for (int any = 0; any < 2; any++)
		for (uint32_t at = 0; at < control->most_slots; at++) {
			struct slot *slot = &slots[at];
			int32_t nobody = 0;

			if (!slot->owner && (any || slot->head == slot->tail) &&
			    __atomic_compare_exchange_n(&slot->owner, &nobody, tid, 0, __ATOMIC_ACQUIRE,
							__ATOMIC_RELAXED))
				return slot;
		}
	return NULL;
}

/* Called only during a trace, so that processes that are not traced take no slots. */
static struct thread *join(void)
{
	struct thread *thread;
	uint32_t at, used;

	if (self) { /* it has joined an area that this process used before */
		pthread_setspecific(leaving, NULL);
		leave_for_good(self);
	}
	thread = calloc(1, sizeof *thread);
	if (!thread)
		return NULL;
	thread->of = control;
	thread->slot = free_slot((int)syscall(SYS_gettid));
	if (!thread->slot) {
		__atomic_fetch_add(&control->slotless, 1, __ATOMIC_RELAXED);
		free(thread);
		return NULL;
	}
	thread->slot->pid = getpid();
	thread->slot->generation = control->generation - 1;
	at = (uint32_t)(thread->slot - (struct slot *)(area + control->slots));
	used = control->used_slots;
	while (used <= at && !__atomic_compare_exchange_n(&control->used_slots, &used, at + 1, 0, __ATOMIC_RELEASE,
							  __ATOMIC_RELAXED))
		;
	thread->counters = (struct counters *)(area + control->counters) + (size_t)at * control->most_points;
	thread->shares_histograms = at >= control->shards - 1;
	thread->histograms = (uint64_t(*)[BUCKETS])(area + control->histograms) +
			     (thread->shares_histograms ? control->shards - 1 : at) * (size_t)control->most_points;
	pthread_setspecific(leaving, thread);
	return self = thread;
}

/* The thread's first task in this trace: tasks that it began before are not part of it. */
static void start_over(struct slot *slot)
{
	slot->generation = control->generation;
	slot->depth = 0;
	prctl(PR_GET_NAME, slot->comm);
}

/* Tasks */

/* Whether a task that begins is only counted, or, if it is a NAMING one, at least until one within it begins. */
static int is_only_counted(const struct thread *thread, uint32_t depth, uint32_t chosen)
{
	const struct choice *outer;

	if (LIKELY(NESTING(chosen) < COVERED))
		return 0;
	if (NESTING(chosen) == NAMING)
		return 1;
	outer = depth && depth <= MOST_DEPTH ? thread->open[depth - 1] : NULL;
	return outer && NESTING((uint32_t)outer->chosen) == COVERING;
}

/* The NAMING task at this depth, in `named` of the task within it. */
static uint16_t name_at(const struct thread *thread, uint32_t depth)
{
	uint32_t outermost = (uint32_t)thread->open[0]->chosen;
	uint16_t name = (uint16_t)(POINT((uint32_t)thread->open[depth]->chosen) * 31u + POINT(outermost) * 1009u + 1);

	return name ? name : 1;
}

/* A task that begins within a NAMING one has that one recorded, if it is not known for it yet. */
static void begin_outer(struct thread *thread, uint32_t depth)
{
	const struct choice *outer = thread->open[depth - 1], *choice = thread->open[depth];

	if (outer && thread->open[0] && NESTING((uint32_t)outer->chosen) == NAMING &&
	    choice->named != name_at(thread, depth - 1))
		thread->slot->frames[depth - 1].start = thread->slot->frames[depth].start - 1;
}

static void task_begin(const struct domain *domain, struct id id, struct id parent, const struct handle *handle)
{
	struct thread *thread = self;
	struct slot *slot;
	struct choice *choice;
	struct frame *frame;
	uint32_t point, depth, chosen;
	int measured;

	(void)id, (void)parent;
	if (!control || !control->enabled)
		return;
	if (!LIKELY(thread && thread->of == control) && !(thread = join()))
		return;
	slot = thread->slot;
	enter(slot);
	if (!LIKELY(control->enabled))
		goto out;
	if (!LIKELY(slot->generation == control->generation))
		start_over(slot);
	choice = choice_of(domain, handle, slot->generation);
	chosen = choice ? (uint32_t)choice->chosen : NOT_SELECTED;
	point = POINT(chosen);
	depth = slot->depth++;
	measured = point != NOT_SELECTED && !is_only_counted(thread, depth, chosen);
	if (measured) { /* the clock would wait for these, but not for fetching them */
		__builtin_prefetch(&thread->counters[point], 1);
		__builtin_prefetch(&thread->histograms[point][choice->bucket], 1);
	}
	if (LIKELY(depth < MOST_DEPTH)) {
		thread->open[depth] = choice;
		frame = &slot->frames[depth];
		frame->domain = domain;
		frame->point = point;
		frame->page_faults = !LIKELY(!(chosen & FAULTS_CHOSEN)) ? page_faults() : 0;
		frame->start = measured ? now() : 0;
		if (measured && depth)
			begin_outer(thread, depth);
	} else if (measured) {
		thread->counters[point].lost++;
	}
	if (point != NOT_SELECTED)
		thread->counters[point].hits++;
out:
	leave(slot);
}

static void take_stacks(struct record *record, const struct place *place)
{
	struct stack *table = (struct stack *)(area + control->stacks);
	int pid = (int)record->pid, python_stacks = control->python_stacks && is_tracer;

	record->user_stack = record->python_stack = 0;
	/* Beside the Python stack of a task marked in Python, it would be the interpreter's call of the collector. */
	if (control->user_stacks && !(place->python_frames && python_stacks))
		record->user_stack = user_stack(table, control->most_stacks, pid, place, &control->not_walked);
	if (python_stacks)
		record->python_stack = python_stack(table, control->most_stacks, pid, &control->python, place);
}

/* Returns whether there was room. */
static int record(struct slot *slot, struct counters *counters, const struct frame *frame, uint64_t duration,
		  const struct place *place)
{
	struct record *record;
	uint64_t head = slot->head;

	if (head - slot->tail >= slot->room) {
		counters->lost++;
		return 0;
	}
	record = (struct record *)(area + slot->ring + (head & (slot->room - 1)) * control->record_bytes);
	record->time = frame->start + (uint64_t)control->shift_ns;
	record->pid = (uint32_t)slot->pid;
	record->tid = (uint32_t)slot->owner;
	memcpy(record->comm, slot->comm, COMM);
	record->point = (uint16_t)(control->first_point + frame->point);
	record->cpu = (uint16_t)sched_getcpu();
	record->page_faults = 0;
	if (!LIKELY(!frame->page_faults))
		record->page_faults = (page_faults() - frame->page_faults) & ~COUNTS_FAULTS;
	record->duration = (int64_t)duration;
	if (control->user_stacks || control->python_stacks)
		take_stacks(record, place);
	__atomic_store_n(&slot->head, head + 1, __ATOMIC_RELEASE);
	return 1;
}

static void finish(struct thread *thread, uint32_t depth, const struct place *place)
{
	const struct frame *frame = &thread->slot->frames[depth];
	struct counters *counters = &thread->counters[frame->point];
	uint64_t duration = now() - frame->start;
	unsigned bucket = bucket_of(duration);
	uint64_t *histogram = thread->histograms[frame->point];
	struct choice *choice = thread->open[depth];

	counters->total += duration;
	if (duration > counters->longest)
		counters->longest = duration;
	if (LIKELY(!thread->shares_histograms))
		histogram[bucket]++;
	else
		__atomic_fetch_add(&histogram[bucket], 1, __ATOMIC_RELAXED);
	if (LIKELY(choice))
		choice->bucket = (uint16_t)bucket;
	if (control->recording && !record(thread->slot, counters, frame, duration, place))
		return;
	if (!LIKELY(!choice || NESTING((uint32_t)choice->chosen) != NAMING))
		thread->open[depth + 1]->named = name_at(thread, depth); /* of the task that had it measured */
}

/* Ends the domain's innermost task; tasks of other domains above it were left without an end. */
static void end_task(const struct domain *domain, const struct place *place)
{
	struct thread *thread = self;
	struct slot *slot;
	uint32_t depth;

	if (!thread || thread->of != control || !control->enabled)
		return;
	slot = thread->slot;
	enter(slot);
	if (!control->enabled || slot->generation != control->generation)
		goto out;
	if (!LIKELY(slot->depth <= MOST_DEPTH)) {
		slot->depth--;
		goto out;
	}
	depth = slot->depth;
	while (depth && slot->frames[depth - 1].domain != domain)
		depth--;
	if (!depth) /* it began before the trace */
		goto out;
	slot->depth = depth - 1;
	if (slot->frames[depth - 1].point != NOT_SELECTED && slot->frames[depth - 1].start)
		finish(thread, depth - 1, place);
out:
	leave(slot);
}

static void task_end(const struct domain *domain)
{
	end_task(domain, &(struct place){__builtin_return_address(0), 0, NULL});
}

/* Domains and names live as long as the process: their users keep pointers to them. */

static struct domain *domain_create(const char *name)
{
	struct domain *domain;

	if (!name)
		return NULL;
	pthread_mutex_lock(&lock);
	for (domain = domains; domain && strcmp(domain->name, name); domain = domain->next)
		;
	if (!domain && (domain = calloc(1, sizeof *domain))) {
		domain->name = strdup(name);
		if (domain->name) {
			domain->flags = on && (!is_tracer || selecting(name, NULL) != NOT_SELECTED);
			domain->next = domains;
			domains = domain;
		} else {
			free(domain);
			domain = NULL;
		}
	}
	pthread_mutex_unlock(&lock);
	return domain;
}

static struct handle *handle_create(const char *text)
{
	struct handle *handle, **list;
	struct own_handle *made;

	if (!text)
		return NULL;
	list = &handles[hash_of("", text) % HANDLE_LISTS];
	pthread_mutex_lock(&lock);
	for (handle = *list; handle && strcmp(handle->text, text); handle = handle->next)
		;
	if (!handle && !posix_memalign((void **)&made, CACHE_LINE, sizeof *made)) {
		memset(made, 0, sizeof *made);
		made->handle.text = strdup(text);
		if (made->handle.text) {
			made->handle.pointer = &made->first; /* of no domain yet */
			made->handle.next = *list;
			*list = handle = &made->handle;
		} else {
			free(made);
		}
	}
	pthread_mutex_unlock(&lock);
	return handle;
}

/* Notes whose table of functions this is. */
static void note_library(const struct api_table *table)
{
	struct file *library;
	Dl_info found;
	uint32_t at;

	if (!control || !dladdr(table, &found) || !found.dli_fname)
		return;
	at = __atomic_fetch_add(&control->library_count, 1, __ATOMIC_RELAXED) % MOST_FILES;
	library = (struct file *)(area + control->libraries) + at;
	library->pid = getpid();
	snprintf(library->path, sizeof library->path, "%s", found.dli_fname);
}

EXPORT void __itt_api_init(struct api_table *table, int groups)
{
	static const struct {
		const char *name;
		void *function;
	} ours[] = {
		{"__itt_domain_create", domain_create},
		{"__itt_string_handle_create", handle_create},
		{"__itt_task_begin", task_begin},
		{"__itt_task_end", task_end},
	};

	(void)groups;
	note_library(table);
	for (struct api_entry *entry = table->entries; entry && entry->name; entry++)
		for (size_t at = 0; at < sizeof ours / sizeof *ours; at++)
			if (!strcmp(entry->name, ours[at].name))
				*entry->function = ours[at].function;
}

/* For the notebook's process */

/* Switches this process's domains, on before a trace and off after it. */
EXPORT void accel_magic_itt_switch(int wanted)
{
	if (wanted && control->user_stacks)
		prepare_stacks();
	pthread_mutex_lock(&lock);
	on = wanted;
	for (struct domain *domain = domains; domain; domain = domain->next)
		domain->flags = wanted && selecting(domain->name, NULL) != NOT_SELECTED;
	pthread_mutex_unlock(&lock);
}

/* A thread that was killed while it wrote stays marked as busy. */
static int is_writing(const struct slot *slot)
{
	return slot->owner > 0 && slot->busy && !syscall(SYS_tgkill, slot->pid, slot->owner, 0);
}

/* After `enabled` was cleared: waits until no thread writes any more. Returns the number of those that still do. */
EXPORT int accel_magic_itt_settle(void)
{
	struct slot *slots = (struct slot *)(area + control->slots);
	uint64_t deadline = now() + SETTLED_S * 1000000000ull;
	int writing = 0;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0))
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	for (uint32_t at = 0; at < control->used_slots; at++) {
		while (is_writing(&slots[at]) && now() < deadline)
			sched_yield();
		writing += is_writing(&slots[at]);
	}
	return writing;
}

static size_t add_line(char *text, size_t size, size_t used, const char *line)
{
	size_t length = strlen(line) + 1;

	if (used + length >= size)
		return used;
	memcpy(text + used, line, length - 1);
	text[used + length - 1] = '\n';
	text[used + length] = 0;
	return used + length;
}

/* The domains that exist in this process, one per line; those without room are left out. */
EXPORT void accel_magic_itt_domains(char *text, size_t size)
{
	size_t used = 0;

	pthread_mutex_lock(&lock);
	for (const struct domain *domain = domains; domain; domain = domain->next)
		used = add_line(text, size, used, domain->name);
	pthread_mutex_unlock(&lock);
}

/* The names of tasks in this process that begin with a text, likewise. */
EXPORT void accel_magic_itt_tasks(const char *start, char *text, size_t size)
{
	size_t used = 0;

	pthread_mutex_lock(&lock);
	for (int list = 0; list < HANDLE_LISTS; list++)
		for (const struct handle *handle = handles[list]; handle; handle = handle->next)
			if (!strncmp(handle->text, start, strlen(start)))
				used = add_line(text, size, used, handle->text);
	pthread_mutex_unlock(&lock);
}

/* Tasks of Python code; a name's handle stays valid. */
EXPORT void *accel_magic_itt_name(const char *text)
{
	return handle_create(text);
}

EXPORT void accel_magic_itt_begin(void *handle)
{
	if (python->flags)
		task_begin(python, (struct id){{0}}, (struct id){{0}}, handle);
}

/* `own` innermost Python frames belong to the tool. */
EXPORT void accel_magic_itt_end(unsigned own)
{
	if (python->flags)
		end_task(python, &(struct place){__builtin_return_address(0), own, NULL});
}

/* Opening the area */

static int open_area(char *text)
{
	char path[64];
	unsigned pid, fd;

	if (sscanf(text, "%u:%u:", &pid, &fd) != 2)
		return -1;
	snprintf(path, sizeof path, "/proc/%u/fd/%u", pid, fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* Whether the variable's token, 32 hexadecimal digits at its end, is the area's. */
static int is_ours(const struct control *control, const char *text)
{
	const char *digits = strrchr(text, ':');

	if (!digits || strlen(++digits) != 2 * sizeof control->token)
		return 0;
	for (size_t at = 0; at < sizeof control->token; at++) {
		unsigned byte;

		if (sscanf(digits + 2 * at, "%2x", &byte) != 1 || byte != control->token[at])
			return 0;
	}
	return control->magic == AREA_MAGIC && control->version == AREA_VERSION;
}

static void after_fork_in_child(void)
{
	self = NULL;
	pthread_mutex_init(&lock, NULL);
	is_tracer = 0; /* nobody switches this process's domains */
	on = 1;
	for (struct domain *domain = domains; domain; domain = domain->next)
		domain->flags = 1;
}

/* Uses the memory that a text of the variable describes. Returns whether it can. */
static int use(char *text)
{
	struct stat status;
	unsigned char *found = MAP_FAILED;
	struct control *made;
	int fd;

	if (!text || !can_leave)
		return 0;
	if (control && is_ours(control, text))
		return 1;
	fd = open_area(text);
	if (fd >= 0 && !fstat(fd, &status) && S_ISREG(status.st_mode) &&
	    status.st_size >= (off_t)sizeof *control)
		found = map_area(fd, (size_t)status.st_size);
	if (fd >= 0)
		close(fd);
	if (found == MAP_FAILED)
		return 0;
	made = (struct control *)found;
	if (!is_ours(made, text) || made->size != (uint64_t)status.st_size) {
		munmap(found, (size_t)status.st_size);
		return 0;
	}
	area_number++;
	area = found; /* what was used before stays mapped: threads may be using it */
	control = made;
	is_tracer = (unsigned)atoi(text) == (unsigned)getpid();
	on = !is_tracer;
	if (is_tracer)
		share_lock();
	return 1;
}

/* For a process that traces itself, but has used the memory of another, whose descendant it is. */
EXPORT int accel_magic_itt_use(char *text)
{
	return use(text);
}

__attribute__((constructor)) static void start(void)
{
	bytes_locale = newlocale(LC_ALL_MASK, "C", NULL);
	can_leave = !pthread_key_create(&leaving, leave_for_good);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
	pthread_atfork(NULL, NULL, after_fork_in_child);
	use(secure_getenv(VARIABLE));
	python = domain_create("python");
}
