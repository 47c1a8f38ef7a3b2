/* SPDX-License-Identifier: Apache-2.0 */
/* Python stacks of the current thread in BPF programs: see python_walk.h. */
#ifndef ACCEL_MAGIC_PYTHON_H
#define ACCEL_MAGIC_PYTHON_H

#include "stacks.h"
#define AM_PY_FRAME_ROOM AM_PY_FRAME_WORDS
#include "python_walk.h"

/* The current thread's newest frame; 0 if it has none or belongs to another process. */
AM_INLINE u64 am_py_current(void)
{
	u64 state = 0;

	if ((u32)(bpf_get_current_pid_tgid() >> 32) != AM_PY_PID)
		return 0;
	bpf_probe_read_kernel(&state, sizeof(state), (char *)bpf_get_current_task() + AM_PY_FS_BASE);
	state = am_py_word(state + AM_PY_THREAD_STATE);
	return state ? am_py_newest(state) : 0;
}

/* Key of the current thread's Python stack, built in `stack`; 0 if there is none. */
AM_SHARED(u64, am_take_python)(struct am_stack *stack)
{
	u64 key, newest = am_py_current();
	u32 words = newest ? am_py_walk(stack, newest) : 0;

	if (!words)
		return 0;
	/* Lines are determined by the code objects, so they are read only for stacks that are not in the table. */
	key = am_stack_key(stack, AM_KIND_PYTHON, words);
	if (!bpf_map_lookup_elem_(AM_MAP(AM_STACKS), &key)) {
		am_py_complete(stack);
		bpf_map_update_elem_(AM_MAP(AM_STACKS), &key, stack, BPF_NOEXIST);
	}
	return key;
}

static u64 (*am_call_take_python)(struct am_stack *stack) = AM_FUNCTION(AM_DO_TAKE_PYTHON);

AM_INLINE u64 am_python_stack(int class)
{
	struct am_stack *stack = am_scratch_of(class);

	return stack ? am_call_take_python(stack) : 0;
}

#define AM_PYTHON_STACK am_python_stack(AM_STACK_CLASS)

#endif
