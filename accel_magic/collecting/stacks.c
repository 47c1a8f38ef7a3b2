/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks.h"

#include <execinfo.h>
#include <string.h>

enum {
	TRIES = 64,	/* places in the table where a stack may be */
	OWN_FRAMES = 8, /* at least the frames of the collector itself */
	OWNER_SHIFT = 8,
};

/* What bpf/kernel/python_walk.h needs. */
typedef uint32_t u32;
typedef uint64_t u64;

struct am_stack {
	u32 words;
	u64 word[STACK_WORDS];
};

static const struct python_layout *python;

#define AM_INLINE static inline
#define AM_STACK_WORDS STACK_WORDS
#define AM_STEP(name) AM_INLINE long name
#define AM_REPEAT(times, name, number, state)                                                                  \
	for (u32 am_at = 0; am_at < (times) && !name(am_at, state); am_at++) {}
#define AM_PY_FRAME_ROOM 16
#define AM_PY_FRAME_WORDS (python->frame_words)
#define AM_PY_MOST_FRAMES MOST_FRAMES
#define AM_PY_FRAME (python->frame)
#define AM_PY_CODE (python->code)
#define AM_PY_PREVIOUS (python->previous)
#define AM_PY_INSTRUCTION (python->instruction)
#define AM_PY_TAG ((u64)python->tag)
#define AM_PY_SHIM (python->shim)
#define AM_PY_FLAGS (python->flags)
#define AM_PY_GENERATOR (python->generator)
#define AM_PY_FIRST_LINE (python->first_line)
#define AM_PY_BYTECODE (python->bytecode)
#define AM_PY_HOPS for (u32 at_hop = 0; at_hop < python->hop_count; at_hop++) { AM_PY_HOP(python->hops[at_hop]) }
/* A task begins and ends in a call from a frame: the newest one always exists. */
#define AM_PY_OUTER (-1)
#define AM_PY_CODE_TYPE 0

AM_INLINE u32 am_words(const struct am_stack *stack)
{
	return stack->words;
}

AM_INLINE int am_read_user(void *to, u32 size, const void *from)
{
	if (!can_read((u64)from, size))
		return -1;
	memcpy(to, from, size);
	return 0;
}

#include "python_walk.h"

static uint64_t key_of(uint32_t kind, const uint64_t *words, uint32_t count)
{
	uint64_t hash = (uint64_t)count << 40 | kind;

	for (uint32_t at = 0; at < count; at++) {
		hash = (hash ^ words[at]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return hash | 1;
}

/* The place of a stack, or a free one for it; NULL if there is none. `*is_new`: it is now this stack's, without words. */
static struct stack *place_of(struct stack *table, uint32_t size, uint64_t key, int *is_new)
{
	*is_new = 0;
	for (uint32_t try = 0; try < TRIES; try++) {
		struct stack *at = &table[((key >> 8) + try) % size];
		uint64_t found = at->key;

		if (!found && __atomic_compare_exchange_n(&at->key, &found, key, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			*is_new = 1;
		if (*is_new || found == key)
			return at;
	}
	return NULL;
}

static void fill(struct stack *at, uint32_t kind, const uint64_t *words, uint32_t count)
{
	at->kind = kind;
	memcpy(at->word, words, count * sizeof *words);
	__atomic_store_n(&at->words, count, __ATOMIC_RELEASE);
}

static uint64_t skipped_start, skipped_end;

void skip_frames(uint64_t start, uint64_t end)
{
	skipped_start = start;
	skipped_end = end;
}

static int is_skipped(uint64_t frame)
{
	return frame >= skipped_start && frame < skipped_end;
}

void prepare_stacks(void)
{
	void *found[1];

	backtrace(found, 1);
}

uint64_t user_stack(struct stack *table, uint32_t size, int pid, const struct place *place,
		    volatile uint32_t *not_walked)
{
	void *found[OWN_FRAMES + MOST_FRAMES];
	uint64_t words[MOST_FRAMES], key;
	int count = backtrace(found, OWN_FRAMES + MOST_FRAMES), first = 0, is_new;
	uint32_t kind = USER_STACK | (uint32_t)pid << OWNER_SHIFT, kept = 0;
	struct stack *at;

	if (!count)
		__atomic_fetch_add(not_walked, 1, __ATOMIC_RELAXED);
	while (first < count && found[first] != place->caller)
		first++;
	if (place->function)
		words[kept++] = (uint64_t)place->function;
	if (first == count)
		words[kept++] = (uint64_t)place->caller;
	for (; first < count && kept < MOST_FRAMES; first++)
		if (!is_skipped((uint64_t)found[first]))
			words[kept++] = (uint64_t)found[first];
	if (!place->function && kept)
		words[0]--; /* into the call, as for a stack whose innermost word is an instruction */
	key = key_of(kind, words, kept);
	if ((at = place_of(table, size, key, &is_new)) && is_new)
		fill(at, kind, words, kept);
	return key;
}

uint64_t python_stack(struct stack *table, uint32_t size, int pid, const struct python_layout *layout,
		      const struct place *place)
{
	struct am_stack stack;
	uint32_t kind = PYTHON_STACK | (uint32_t)pid << OWNER_SHIFT, own = 2 * place->python_frames;
	uint64_t state, newest, key;
	struct stack *at;
	int is_new;

	python = layout;
	memcpy(&state, (const char *)__builtin_thread_pointer() + layout->thread_state, sizeof state);
	newest = state ? am_py_newest(state) : 0;
	if (!newest || am_py_walk(&stack, newest) <= own)
		return 0;
	stack.words -= own;
	memmove(stack.word, stack.word + own, stack.words * sizeof *stack.word);
	key = key_of(kind, stack.word, stack.words);
	if ((at = place_of(table, size, key, &is_new)) && is_new) {
		am_py_complete(&stack); /* lines are determined by the code objects */
		fill(at, kind, stack.word, stack.words);
	}
	return key;
}
