/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a Python stack in the interpreter's memory, in BPF programs (python.h) and in the collector of ITT tasks.
 *
 * All constants AM_PY_* come from accel_magic/kernel/stacks/python_layout.py, which found them in the traced process:
 * only that process is walked. Each frame takes two words, innermost frame first: the address of its code object;
 * then the byte offset of the current instruction in its bytecode (lower half) and the code's first line (upper
 * half). The offset is negative while a function is being entered.
 *
 * An incomplete stack ends with the word 0 and the reason (AM_PY_CUT_*): it is deeper than AM_PY_MOST_FRAMES; its memory
 * could not be read; or its outermost frame is a generator that was already detached from its caller.
 *
 * Defined before this header: struct am_stack, am_words, am_read_user, AM_INLINE, AM_STEP, AM_REPEAT; AM_PY_FRAME_ROOM >= AM_PY_FRAME_WORDS.
 */
#ifndef ACCEL_MAGIC_PYTHON_WALK_H
#define ACCEL_MAGIC_PYTHON_WALK_H

/* In step with accel_magic/kernel/stacks/python_names.py. */
#define AM_PY_CUT_DEEP 1
#define AM_PY_CUT_UNREADABLE 2
#define AM_PY_CUT_LET_GO 3

/* Frames of calls from C into Python are skipped; at most every other frame is one. */
#define AM_PY_STEPS (2 * AM_PY_MOST_FRAMES)
#define AM_PY_TYPE 8 /* offset of an object's type */

struct am_py_frame {
	u64 word[AM_PY_FRAME_ROOM];
};

AM_INLINE u64 am_py_word(u64 address)
{
	u64 value = 0;

	am_read_user(&value, sizeof(value), (void *)address);
	return value;
}

AM_INLINE int am_py_is_frame(u64 at)
{
	u64 code = am_py_word(at + AM_PY_FRAME + 8 * AM_PY_CODE) & ~AM_PY_TAG;

	return am_py_word(code + AM_PY_TYPE) == AM_PY_CODE_TYPE;
}

/* The newest frame of a thread, from its state; 0 if it has none. */
AM_INLINE u64 am_py_newest(u64 state)
{
	u64 at = state, run = 0, hop = 0;

#define AM_PY_HOP(offset) run = at, hop = (offset), at = am_py_word(run + hop);
	AM_PY_HOPS
#undef AM_PY_HOP
	/* A starting run of the interpreter has no frame yet, and the pointer is uninitialized. */
	if (AM_PY_OUTER >= 0 && !am_py_is_frame(at))
		at = am_py_word(am_py_word(run + AM_PY_OUTER) + hop);
	return at;
}

AM_INLINE void am_py_put(struct am_stack *stack, u64 first, u64 second)
{
	u32 at = am_words(stack);

	stack->word[at & (AM_STACK_WORDS - 1)] = first;
	stack->word[(at + 1) & (AM_STACK_WORDS - 1)] = second;
	stack->words = at + 2;
}

struct am_py_walk {
	struct am_stack *stack;
	u64 at; /* the next frame; 0 after the outermost */
	u64 cut;
};

AM_STEP(am_py_frame_step)(u32 index, struct am_py_walk *walk)
{
	struct am_stack *stack = walk->stack;
	struct am_py_frame frame;
	u64 code;

	(void)index;
	if (am_words(stack) >= 2 * AM_PY_MOST_FRAMES)
		return 1;
	if (am_read_user(&frame, 8 * AM_PY_FRAME_WORDS, (void *)(walk->at + AM_PY_FRAME))) {
		walk->cut = AM_PY_CUT_UNREADABLE;
		return 1;
	}
	code = frame.word[AM_PY_CODE] & ~AM_PY_TAG;
	if (code != AM_PY_SHIM)
		am_py_put(stack, code, (u32)(frame.word[AM_PY_INSTRUCTION] - code - AM_PY_BYTECODE));
	walk->at = frame.word[AM_PY_PREVIOUS];
	return !walk->at;
}

/* Adds the frames from this one outward, without lines; returns the number of words. */
AM_INLINE u32 am_py_walk(struct am_stack *stack, u64 at)
{
	struct am_py_walk walk = {stack, at, AM_PY_CUT_DEEP};

	stack->words = 0;
	AM_REPEAT(AM_PY_STEPS, am_py_frame_step, AM_DO_FRAME_STEP, &walk);
	if (walk.at)
		am_py_put(stack, 0, walk.cut);
	return am_words(stack);
}

struct am_py_lines {
	struct am_stack *stack;
	u64 code; /* the outermost so far */
};

AM_STEP(am_py_line_step)(u32 index, struct am_py_lines *lines)
{
	u64 *frame = &lines->stack->word[2 * index & (AM_STACK_WORDS - 2)];
	u32 line = 0;

	if (2 * index >= am_words(lines->stack))
		return 1;
	lines->code = frame[0];
	if (!frame[0])
		return 1;
	am_read_user(&line, sizeof(line), (void *)(frame[0] + AM_PY_FIRST_LINE));
	frame[1] |= (u64)line << 32;
	return 0;
}

/* Adds the first line of each frame's code, and a mark if the outermost frame is a generator without a caller. */
AM_INLINE void am_py_complete(struct am_stack *stack)
{
	struct am_py_lines lines = {stack, 0};
	u32 flags = 0;

	AM_REPEAT(AM_STACK_WORDS / 2, am_py_line_step, AM_DO_LINE_STEP, &lines);
	if (!lines.code)
		return;
	am_read_user(&flags, sizeof(flags), (void *)(lines.code + AM_PY_FLAGS));
	if (flags & AM_PY_GENERATOR)
		am_py_put(stack, 0, AM_PY_CUT_LET_GO);
}

#endif
