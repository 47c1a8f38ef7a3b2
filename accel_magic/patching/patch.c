/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the beginning of functions by a jump to a stub, which reports the hit (entry.S) and runs the displaced
 * instructions; and puts the original pages back.
 *
 * Threads may run the function meanwhile. Pages of code are never written to: a copy with the jumps replaces them at once
 * (mremap). A thread that was between two displaced instructions finds a breakpoint or no instruction there, because the distance
 * of each jump is chosen such that it has such a byte wherever an instruction began: a signal's handler lets it continue in the
 * stub's copy of that instruction. The jumps lead to landing pads, at addresses with such distances, and these to the stubs.
 *
 * Stubs and pads stay for as long as the process, because a thread may be in one at any time; a function has one of each.
 */
#define _GNU_SOURCE
#include "patch.h"
#include "hits.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define PAGE 4096ull
#define PAGE_OF(address) ((address) & ~(PAGE - 1))
#define AFTER_PAGE_OF(address) PAGE_OF((address) + PAGE - 1)

enum {
	JUMP = 5,
	STUB_BYTES = 192, /* most of a stub, both its parts */
	ARENA_BYTES = 1 << 16,
	HIGHEST_USER = 47, /* bits of an address */
	MOST_WINDOWS = 1 << 14,
};

#define NEAR (1900ull << 20)

/* A function that was prepared once. */
struct function {
	uint64_t address;
	uint64_t reporting, counting; /* stubs; 0: not made */
	uint64_t pad, pad_target;	      /* the landing pad leads to one of them */
	uint64_t body;
	uint8_t boundary_count, boundaries[4];
	uint8_t original[JUMP];
	uint16_t library;
};

struct write {
	uint64_t at;
	size_t from; /* position in `code` */
	uint32_t size, library; /* library + 1; 0: memory of our own */
};

struct inside {
	uint64_t at, moved;
	uint32_t function;
};

struct insides {
	size_t count;
	struct inside list[];
};

struct mapping {
	uint64_t start, end;
};

/* Pages that were replaced, to be put back from the file. */
struct replaced {
	uint64_t start, end, offset;
	int file;
};

struct pad_page {
	uint64_t page;
	uint64_t used[PAGE / 64];
};

struct arena {
	uint64_t start, used, end;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct function *functions;
static struct insides *insides; /* read by the handler of traps */
static struct sigaction previous[2]; /* of SIGTRAP and SIGILL */
static struct mapping *mappings;
static size_t mapping_count;
static struct pad_page *pad_pages;
static size_t pad_page_count;
static struct arena *arenas;
static size_t arena_count;
static struct replaced *replaced;
static size_t replaced_count;
static struct write *writes;
static size_t write_count, write_room;
static uint8_t *code; /* bytes of the writes */
static size_t code_used, code_room;
static const struct patched_library *libraries;

/* Traps */

static void on_trap(int signal, siginfo_t *info, void *context)
{
	greg_t *rip = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	uint64_t at = (uint64_t)*rip - (signal == SIGTRAP); /* behind a breakpoint, else at the instruction */
	const struct sigaction *other = &previous[signal != SIGTRAP];
	const struct insides *known = __atomic_load_n(&insides, __ATOMIC_ACQUIRE);
	size_t low = 0, high = known ? known->count : 0;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (known->list[middle].at < at)
			low = middle + 1;
		else
			high = middle;
	}
	if (known && low < known->count && known->list[low].at == at) {
		*rip = (greg_t)known->list[low].moved;
		__atomic_fetch_add(&accel_magic_control->traps, 1, __ATOMIC_RELAXED);
	} else if (other->sa_flags & SA_SIGINFO) {
		other->sa_sigaction(signal, info, context);
	} else if (other->sa_handler == SIG_DFL || other->sa_handler == SIG_IGN) {
		sigaction(signal, other, NULL); /* it is not ours: as without us */
		*rip = (greg_t)at;
	} else {
		other->sa_handler(signal);
	}
}

/* Whether traps are handled by us, or by nobody. */
EXPORT int accel_magic_patching_traps_are_free(void)
{
	struct sigaction action;

	if (sigaction(SIGTRAP, NULL, &action))
		return 0;
	if (action.sa_flags & SA_SIGINFO)
		return action.sa_sigaction == on_trap;
	return action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN;
}

static int handle_traps(void)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | SA_NODEFER}, old;

	action.sa_sigaction = on_trap;
	for (int at = 0; at < 2; at++) {
		if (sigaction(at ? SIGILL : SIGTRAP, &action, &old))
			return -1;
		if (!(old.sa_flags & SA_SIGINFO && old.sa_sigaction == on_trap))
			previous[at] = old;
	}
	return 0;
}

/* Address space */

static int read_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t size = 0, room = mapping_count;
	unsigned long start, end;

	if (!file)
		return -1;
	mapping_count = 0;
	while (getline(&line, &size, file) > 0) {
		if (sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		if (mapping_count >= room || !mappings) {
			room = room ? 2 * room : 1024;
			mappings = realloc(mappings, room * sizeof *mappings);
			if (!mappings)
				abort();
		}
		mappings[mapping_count++] = (struct mapping){start, end};
	}
	free(line);
	fclose(file);
	return 0;
}

/* The first mapping that ends after an address. */
static size_t mapping_after(uint64_t address)
{
	size_t low = 0, high = mapping_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (mappings[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int is_free(uint64_t start, uint64_t end)
{
	size_t at = mapping_after(start);

	return start >= 1 << 16 && end < 1ull << HIGHEST_USER && (at == mapping_count || mappings[at].start >= end);
}

static int is_covered(uint64_t start, uint64_t end)
{
	size_t at = mapping_after(start);

	return at < mapping_count && mappings[at].start <= start && mappings[at].end >= end;
}

static int reserve(uint64_t start, uint64_t size)
{
	void *got = mmap((void *)start, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (got == MAP_FAILED)
		return -1;
	if ((uint64_t)got != start) {
		munmap(got, size);
		return -1;
	}
	return 0;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Memory for a stub that reaches all of a library. */
static uint64_t arena_place(const struct patched_library *library, uint32_t size)
{
	struct arena *arena;

	for (size_t at = arena_count; at-- > 0;) {
		arena = &arenas[at];
		if (arena->end - arena->used >= size && distance(arena->start, library->start) < NEAR &&
		    distance(arena->start, library->end) < NEAR)
			goto found;
	}
	for (uint64_t far = 16ull << 20; far < NEAR; far += 8ull << 20)
		for (int above = 0; above < 2; above++) {
			uint64_t start = PAGE_OF(above ? library->end + far : library->start - far);

			if ((!above && library->start < far) || distance(start, library->start) >= NEAR ||
			    distance(start, library->end) >= NEAR || !is_free(start, start + ARENA_BYTES) ||
			    reserve(start, ARENA_BYTES))
				continue;
			arenas = realloc(arenas, (arena_count + 1) * sizeof *arenas);
			if (!arenas)
				abort();
			arena = &arenas[arena_count++];
			*arena = (struct arena){start, start, start + ARENA_BYTES};
			goto found;
		}
	return 0;
found:
	arena->used += size;
	return arena->used - size;
}

/* Code to be written */

static void append(uint64_t at, const uint8_t *bytes, uint32_t size, uint32_t library)
{
	if (write_count == write_room) {
		write_room = write_room ? 2 * write_room : 4096;
		writes = realloc(writes, write_room * sizeof *writes);
	}
	if (code_used + size > code_room) {
		code_room = code_room ? 2 * code_room : 1 << 20;
		code = realloc(code, code_room);
	}
	if (!writes || !code)
		abort();
	memcpy(code + code_used, bytes, size);
	writes[write_count++] = (struct write){at, code_used, size, library};
	code_used += size;
}

static int by_address(const void *left, const void *right)
{
	const struct write *a = left, *b = right;

	return a->at < b->at ? -1 : a->at > b->at;
}

/* Replaces pages by memory with these contents that can be executed, and never could be written to meanwhile. */
static int replace_pages(uint64_t start, uint64_t size, uint8_t *copy)
{
	int file;
	void *got;

	if (!mprotect(copy, size, PROT_READ | PROT_EXEC)) {
		got = mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start);
		return got == (void *)start ? 0 : -1;
	}
	/* Memory that could be written to may not become executable here; a file's may. */
	file = memfd_create("accel_magic-code", MFD_CLOEXEC);
	if (file < 0 || pwrite(file, copy, size, 0) != (ssize_t)size)
		got = MAP_FAILED;
	else
		got = mmap((void *)start, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 0);
	if (file >= 0)
		close(file);
	munmap(copy, size);
	return got == (void *)start ? 0 : -1;
}

static int note_replaced(uint64_t start, uint64_t end, const struct patched_library *library)
{
	replaced = realloc(replaced, (replaced_count + 1) * sizeof *replaced);
	if (!replaced)
		abort();
	replaced[replaced_count++] =
		(struct replaced){start, end, library->offset + (start - library->start), library->file};
	return 0;
}

/* Writes everything that was appended, page by page. Returns 0, or an errno; then some of it may be written. */
static int commit(void)
{
	size_t first = 0, next;
	int error = 0;

	qsort(writes, write_count, sizeof *writes, by_address);
	while (first < write_count && !error) {
		const struct write *begin = &writes[first];
		uint64_t start = PAGE_OF(begin->at), end = AFTER_PAGE_OF(begin->at + begin->size);
		uint8_t *copy;

		for (next = first + 1; next < write_count; next++) {
			const struct write *write = &writes[next];

			if (write->library != begin->library || PAGE_OF(write->at) > end)
				break;
			if (AFTER_PAGE_OF(write->at + write->size) > end)
				end = AFTER_PAGE_OF(write->at + write->size);
		}
		copy = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (copy == MAP_FAILED)
			return errno;
		memcpy(copy, (const void *)start, end - start);
		for (; first < next; first++)
			memcpy(copy + (writes[first].at - start), code + writes[first].from, writes[first].size);
		if (begin->library)
			note_replaced(start, end, &libraries[begin->library - 1]);
		if (replace_pages(start, end - start, copy))
			error = errno ? errno : EINVAL;
	}
	write_count = 0;
	code_used = 0;
	return error;
}

/* Landing pads */

/*
 * Bytes that stop a thread wherever an instruction began: a breakpoint, and opcodes that do not exist in 64-bit code. As the
 * highest byte of a distance, they are places below and above the function; the nearest ones first.
 */
static const uint8_t stops[] = {0xcc, 0x06, 0x07, 0x0e, 0x16, 0x17, 0x1e, 0x1f, 0xea, 0x27, 0x2f, 0xd6,
				0xd4, 0xce, 0x37, 0x3f, 0x60, 0x61, 0x9a};
static const uint8_t tops[] = {0xff, 0xfe, 0x00, 0x01, 0xfd, 0xfc, 0x02, 0xfb, 0xfa, 0xf9, 0xf8, 0xf0, 0xe8,
			       0xe0, 0xd8, 0xd0, 0xc8, 0xc0, 0x08, 0x10};

static int is_stop(uint8_t byte)
{
	for (size_t at = 0; at < sizeof stops; at++)
		if (stops[at] == byte)
			return 1;
	return 0;
}

static int64_t distance_with(const uint8_t bytes[4])
{
	int32_t value;

	memcpy(&value, bytes, sizeof value);
	return value;
}

static int is_unused(const struct pad_page *page, uint32_t at)
{
	for (uint32_t bit = at; bit < at + JUMP; bit++)
		if (page->used[bit / 64] >> (bit % 64) & 1)
			return 0;
	return 1;
}

static void use(struct pad_page *page, uint32_t at)
{
	for (uint32_t bit = at; bit < at + JUMP; bit++)
		page->used[bit / 64] |= 1ull << (bit % 64);
}

/* A pad in a page for a jump that ends at `from`, whose distance has bytes that stop where `inner` says. Returns 0: none. */
static uint64_t pad_in(struct pad_page *page, uint64_t from, const int inner[4])
{
	for (uint32_t at = 0; at + JUMP <= PAGE;) {
		int64_t far = (int64_t)(page->page + at - from);
		int32_t value = (int32_t)far;
		uint8_t bytes[4];

		if (far != value)
			return 0;
		memcpy(bytes, &value, sizeof bytes);
		if ((inner[3] && !is_stop(bytes[3])) || (inner[2] && !is_stop(bytes[2])) || (inner[1] && !is_stop(bytes[1]))) {
			at += 256u - bytes[0]; /* to the next value of the second byte */
		} else if ((inner[0] && !is_stop(bytes[0])) || !is_unused(page, at)) {
			at++;
		} else {
			use(page, at);
			return page->page + at;
		}
	}
	return 0;
}

static struct pad_page *add_pad_page(uint64_t page)
{
	if (reserve(page, PAGE))
		return NULL;
	pad_pages = realloc(pad_pages, (pad_page_count + 1) * sizeof *pad_pages);
	if (!pad_pages)
		abort();
	memset(&pad_pages[pad_page_count], 0, sizeof *pad_pages);
	pad_pages[pad_page_count].page = page;
	return &pad_pages[pad_page_count++];
}

/* A pad in a new page of the 64 KiB with the same two upper bytes. */
static uint64_t pad_in_window(uint64_t from, uint64_t window, const int inner[4])
{
	if (is_covered(PAGE_OF(window), window + (1 << 16)))
		return 0;
	for (uint64_t page = PAGE_OF(window); page < window + (1 << 16); page += PAGE) {
		struct pad_page trial = {.page = page}, *made;

		if (is_free(page, page + PAGE) && pad_in(&trial, from, inner) && (made = add_pad_page(page)))
			return pad_in(made, from, inner);
	}
	return 0;
}

static uint64_t find_pad(const struct function *function)
{
	int inner[4] = {0};
	uint64_t from = function->address + JUMP, pad;
	int thirds, windows = MOST_WINDOWS;

	for (int at = 0; at < function->boundary_count; at++)
		inner[function->boundaries[at] - 1] = 1;
	for (size_t page = pad_page_count; page-- > 0;)
		if ((pad = pad_in(&pad_pages[page], from, inner)))
			return pad;
	thirds = inner[2] ? (int)sizeof stops : 256;
	for (size_t top = 0; top < (inner[3] ? sizeof stops : sizeof tops); top++)
		for (int third = 0; third < thirds && windows--; third++) {
			uint8_t bytes[4] = {0, 0, inner[2] ? stops[third] : (uint8_t)(0x80 + third), inner[3] ? stops[top] : tops[top]};

			if ((pad = pad_in_window(from, from + (uint64_t)distance_with(bytes), inner)))
				return pad;
		}
	return 0;
}

/* Stubs */

struct builder {
	uint8_t code[STUB_BYTES];
	uint32_t size;
	uint64_t at; /* where it will be */
};

static void emit(struct builder *builder, const void *bytes, uint32_t size)
{
	if (builder->size + size <= sizeof builder->code)
		memcpy(builder->code + builder->size, bytes, size);
	builder->size += size;
}

#define EMIT(builder, ...) emit(builder, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void emit32(struct builder *builder, uint32_t value)
{
	emit(builder, &value, sizeof value);
}

static void emit64(struct builder *builder, uint64_t value)
{
	emit(builder, &value, sizeof value);
}

/* push rax; rax = point; call the entry; pop rax. The entry's address follows the call. */
static void emit_report(struct builder *builder, const struct point *point, int has_pushed)
{
	if (!has_pushed)
		EMIT(builder, 0x50);
	EMIT(builder, 0x48, 0xb8);
	emit64(builder, (uint64_t)point);
	EMIT(builder, 0xff, 0x15);
	emit32(builder, 3);
	EMIT(builder, 0x58, 0xeb, 8);
	emit64(builder, (uint64_t)accel_magic_entry);
}

static int emit_body(struct builder *builder, const struct recipe *recipe, uint64_t base)
{
	uint8_t moved[RECIPE_CODE];

	memcpy(moved, recipe->code, recipe->code_bytes);
	for (int at = 0; at < recipe->fixup_count; at++) {
		const struct fixup *fixup = &recipe->fixups[at];
		uint64_t target = base + (uint64_t)fixup->target;
		int64_t far = (int64_t)(target - (builder->at + builder->size + fixup->end));
		uint32_t value = (uint32_t)(fixup->end ? (uint64_t)far : fixup->upper ? target >> 32 : target);

		if (fixup->end && far != (int32_t)far)
			return -1;
		memcpy(moved + fixup->at, &value, sizeof value);
	}
	emit(builder, moved, recipe->code_bytes);
	return 0;
}

/* Counts without a call, if counting is on and the thread has a part; flags are not preserved at a function's entry. */
static void emit_count(struct builder *builder, const struct point *point, uint32_t *slow)
{
	EMIT(builder, 0x50);		 /* push rax */
	EMIT(builder, 0x48, 0xb8);	 /* rax = &enabled */
	emit64(builder, (uint64_t)&accel_magic_control->enabled);
	EMIT(builder, 0x83, 0x38, 0x00); /* cmp dword [rax], 0 */
	EMIT(builder, 0x74, 9 + 3 + 6 + 7 + 7);
	EMIT(builder, 0x64, 0x48, 0x8b, 0x04, 0x25); /* rax = fs:[self] */
	emit32(builder, (uint32_t)accel_magic_self_offset());
	EMIT(builder, 0x48, 0x85, 0xc0);	     /* test rax, rax */
	EMIT(builder, 0x0f, 0x84);		     /* je slow */
	*slow = builder->size;
	emit32(builder, 0);
	EMIT(builder, 0x48, 0x8b, 0x80); /* rax = [rax + counters] */
	emit32(builder, (uint32_t)accel_magic_counters_offset());
	EMIT(builder, 0x48, 0xff, 0x80); /* inc qword [rax + point] */
	emit32(builder, (uint32_t)(point->index * sizeof(struct counters)));
	EMIT(builder, 0x58);		 /* pop rax */
}

/* Makes a function's stub; returns its address, or 0. `body` is where the displaced instructions are. */
static uint64_t make_stub(struct function *function, const struct recipe *recipe, const struct point *point, int counts)
{
	const struct patched_library *library = &libraries[recipe->library];
	struct builder builder = {.at = 0};
	uint32_t slow = 0, body;
	uint64_t place = arena_place(library, STUB_BYTES);

	if (!place)
		return 0;
	builder.at = place;
	if (counts)
		emit_count(&builder, point, &slow);
	else
		emit_report(&builder, point, 0);
	body = builder.size;
	if (emit_body(&builder, recipe, library->base))
		return 0;
	if (counts) {
		uint32_t far = builder.size - (slow + 4);
		int32_t back;

		memcpy(builder.code + slow, &far, sizeof far);
		emit_report(&builder, point, 1);
		EMIT(&builder, 0xe9);
		back = (int32_t)body - (int32_t)(builder.size + 4);
		emit32(&builder, (uint32_t)back);
	}
	if (builder.size > sizeof builder.code)
		return 0;
	if (!function->body)
		function->body = place + body;
	append(place, builder.code, builder.size, 0);
	return place;
}

static int32_t jump_distance(uint64_t from, uint64_t to)
{
	return (int32_t)(int64_t)(to - (from + JUMP));
}

static void append_jump(uint64_t from, uint64_t to, uint32_t library)
{
	uint8_t jump[JUMP] = {0xe9};
	int32_t far = jump_distance(from, to);

	memcpy(jump + 1, &far, sizeof far);
	append(from, jump, sizeof jump, library);
}

/* The address to which a function jumps, for hits to be only counted or reported; 0: there is none. */
static uint64_t landing(struct function *function, const struct recipe *recipe, const struct point *point, int counts)
{
	uint64_t *stub = counts ? &function->counting : &function->reporting;

	if (!*stub && !(*stub = make_stub(function, recipe, point, counts)))
		return 0;
	if (!function->boundary_count)
		return *stub;
	if (!function->pad && !(function->pad = find_pad(function)))
		return 0;
	if (function->pad_target != *stub)
		append_jump(function->pad, *stub, 0);
	function->pad_target = *stub;
	return function->pad;
}

/* Of functions at one place, in libraries that were loaded one after the other, the last one first. */
static int by_place(const void *left, const void *right)
{
	const struct inside *a = left, *b = right;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return a->function > b->function ? -1 : a->function < b->function;
}

static size_t without_earlier(struct inside *list, size_t count)
{
	size_t kept = 0;

	for (size_t at = 0; at < count; at++)
		if (!kept || list[kept - 1].at != list[at].at)
			list[kept++] = list[at];
	return kept;
}

/* Adds the places inside displaced instructions of new functions. */
static int add_insides(const struct recipe *recipes, const struct request *requests, size_t count, const uint8_t *is_new)
{
	size_t old = insides ? insides->count : 0, added = 0;
	struct insides *made;

	for (size_t at = 0; at < count; at++)
		added += is_new[at] ? functions[requests[at].function].boundary_count : 0;
	if (!added)
		return 0;
	made = malloc(sizeof *made + (old + added) * sizeof *made->list);
	if (!made)
		return ENOMEM;
	if (old)
		memcpy(made->list, insides->list, old * sizeof *made->list);
	made->count = old;
	for (size_t at = 0; at < count; at++) {
		const struct function *function = &functions[requests[at].function];

		for (int inner = 0; is_new[at] && inner < function->boundary_count; inner++)
			made->list[made->count++] = (struct inside){function->address + function->boundaries[inner],
								     function->body + recipes[at].places[inner],
								     requests[at].function};
	}
	qsort(made->list, made->count, sizeof *made->list, by_place);
	made->count = without_earlier(made->list, made->count);
	__atomic_store_n(&insides, made, __ATOMIC_RELEASE); /* the old one may be in use */
	return 0;
}

/*
 * Patches functions.
 *
 * `recipes` and `requests` have `count` entries; `results` gets a `patch_result` for each. Returns 0, or an errno if nothing is
 * patched.
 */
EXPORT int accel_magic_patching_patch(const struct patched_library *all, const struct recipe *recipes,
				      const struct request *requests, size_t count, uint8_t *results)
{
	uint8_t *is_new = calloc(count + 1, 1);
	uint64_t *targets = calloc(count + 1, sizeof *targets);
	int error = ENOMEM;

	pthread_mutex_lock(&lock);
	libraries = all;
	if (!is_new || !targets)
		goto out;
	if (!functions && !(functions = calloc(MOST_FUNCTIONS, sizeof *functions)))
		goto out;
	if (handle_traps() || read_mappings()) {
		error = errno;
		goto out;
	}
	for (size_t at = 0; at < count; at++) {
		const struct recipe *recipe = &recipes[at];
		struct function *function = &functions[requests[at].function];

		if (!function->address) {
			function->address = all[recipe->library].base + (uint64_t)recipe->address;
			function->boundary_count = recipe->boundary_count;
			memcpy(function->boundaries, recipe->boundaries, sizeof function->boundaries);
			is_new[at] = 1;
		}
		targets[at] = landing(function, recipe, &accel_magic_points[requests[at].function], requests[at].counts);
		results[at] = targets[at] ? PATCHED : NO_PLACE;
		if (!targets[at]) {
			memset(function, 0, sizeof *function);
			is_new[at] = 0;
		}
	}
	if ((error = add_insides(recipes, requests, count, is_new)) || (error = commit()))
		goto out;
	for (size_t at = 0; at < count; at++)
		if (results[at] == PATCHED)
			append_jump(functions[requests[at].function].address, targets[at], recipes[at].library + 1u);
	error = commit();
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
out:
	pthread_mutex_unlock(&lock);
	free(is_new);
	free(targets);
	return error;
}

/* Puts the original pages back. Returns the number of pages that are not. */
EXPORT size_t accel_magic_patching_restore(void)
{
	size_t remaining = 0;

	pthread_mutex_lock(&lock);
	for (size_t at = 0; at < replaced_count; at++) {
		struct replaced pages = replaced[at];

		if (mmap((void *)pages.start, pages.end - pages.start, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED,
			 pages.file, (off_t)pages.offset) == MAP_FAILED)
			replaced[remaining++] = pages;
	}
	replaced_count = remaining;
	pthread_mutex_unlock(&lock);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
	return remaining;
}

/* The pages that are replaced now: pairs of start and end. Returns their number. */
EXPORT size_t accel_magic_patching_replaced(uint64_t *pairs, size_t most)
{
	size_t count;

	pthread_mutex_lock(&lock);
	count = replaced_count;
	for (size_t at = 0; at < count && at < most; at++) {
		pairs[2 * at] = replaced[at].start;
		pairs[2 * at + 1] = replaced[at].end;
	}
	pthread_mutex_unlock(&lock);
	return count;
}
