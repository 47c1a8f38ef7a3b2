/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of a hit: each distinct stack is stored once, in a table; the record has its hash, which is the key.
 *
 * The table is an ordinary hash map: unlike the kernel's stack trace map it never confuses stacks whose hashes fall into
 * the same bucket, and it can store Python stacks. If it is full, the record's hash is not in the table; user space
 * counts such records.
 *
 * Constants defined before this header: AM_STACK_FRAMES, the maximum number of frames of native and kernel stacks;
 * AM_STACK_WORDS, a power of two large enough for them and for Python stacks. Constant of each program: AM_STACK_CLASS,
 * which determines what may interrupt it while it builds a stack.
 */
#ifndef ACCEL_MAGIC_STACKS_H
#define ACCEL_MAGIC_STACKS_H

/* In step with accel_magic/kernel/attach/stack_maps.py. */
#define AM_KIND_KERNEL 0
#define AM_KIND_USER 1
#define AM_KIND_PYTHON 2
#define AM_OWNER_SHIFT 8

#define AM_CLASS_PERF 0	  /* interrupts: never interrupted on their CPU by a program of this class */
#define AM_CLASS_RAW 1	  /* raw tracepoints */
#define AM_CLASS_KERNEL 2 /* kprobes and tracepoints */
#define AM_CLASS_USER 3	  /* user-space probes: can be preempted by another task's program of this class */
#define AM_USER_SLOTS 1024

struct am_stack {
	u32 kind; /* upper bits: the process that the addresses belong to; 0 for kernel stacks */
	u32 words;
	u64 word[AM_STACK_WORDS];
};

/*
 * Scratch memory for building a stack, because BPF stacks are too small: an array with an element per class and CPU,
 * followed by elements for tasks. The result is never null, but the verifier requires the check.
 */
AM_INLINE struct am_stack *am_scratch_of(int class)
{
	u32 at = class * AM_CPUS + (bpf_get_smp_processor_id() & (AM_CPUS - 1));

	if (class == AM_CLASS_USER)
		at = 3 * AM_CPUS + ((u32)bpf_get_current_pid_tgid() & (AM_USER_SLOTS - 1));
	return bpf_map_lookup_elem_(AM_MAP(AM_SCRATCH), &at);
}

/*
 * Number of words of a stack, re-read each time. If the verifier knew the value, it would check every depth separately;
 * if the compiler (LLVM 18 and later) knew it, it would count down in loops, and the verifier would not see a bound.
 */
AM_INLINE u32 am_words(const struct am_stack *stack)
{
	return *(const volatile u32 *)&stack->words;
}

struct am_hashing {
	struct am_stack *stack;
	u64 hash;
};

AM_INLINE u64 am_mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

AM_STEP(am_hash_words)(u32 index, struct am_hashing *hashing)
{
	struct am_stack *stack = hashing->stack;
	u64 *pair = &stack->word[2 * index & (AM_STACK_WORDS - 2)];

	if (2 * index >= am_words(stack))
		return 1;
	hashing->hash = am_mix(am_mix(hashing->hash, pair[0]), pair[1]);
	return 0;
}

/* Key of a complete stack, never 0. */
AM_INLINE u64 am_stack_key(struct am_stack *stack, u32 kind, u32 words)
{
	u32 owner = kind == AM_KIND_KERNEL ? 0 : bpf_get_current_pid_tgid() >> 32;
	struct am_hashing hashing = {stack, (u64)words << 40 | (u64)owner << 8 | (kind + 1)};

	stack->kind = kind | owner << AM_OWNER_SHIFT;
	stack->words = words;
	if (words & 1) /* words are hashed in pairs */
		stack->word[words & (AM_STACK_WORDS - 1)] = 0;
	AM_REPEAT(AM_STACK_WORDS / 2, am_hash_words, AM_DO_HASH_WORDS, &hashing);
	return hashing.hash | 1;
}

/* Adds a stack to the table unless it is there; returns its key. */
AM_SHARED(u64, am_keep_stack)(struct am_stack *stack, u32 kind, u32 words)
{
	u64 key = am_stack_key(stack, kind, words);

	if (!bpf_map_lookup_elem_(AM_MAP(AM_STACKS), &key))
		bpf_map_update_elem_(AM_MAP(AM_STACKS), &key, stack, BPF_NOEXIST);
	return key;
}

static u64 (*am_call_keep_stack)(struct am_stack *stack, u32 kind, u32 words) = AM_FUNCTION(AM_DO_KEEP_STACK);

/*
 * Key of the stack of return addresses, innermost first; 0 if there is none. Each program calls bpf_get_stack
 * itself, because the kernel unwinds from the calling function.
 */
AM_INLINE u64 am_native_stack(void *ctx, int class, u32 kind)
{
	struct am_stack *stack = am_scratch_of(class);
	long size;

	if (!stack)
		return 0;
	size = bpf_get_stack(ctx, stack->word, AM_STACK_FRAMES * 8, kind == AM_KIND_USER ? BPF_F_USER_STACK : 0);
	if (size <= 0)
		return 0;
	return am_call_keep_stack(stack, kind, (u32)size / 8);
}

/*
 * The same for a function that is being entered: its return address is on top of the stack. It has no frame yet, so most
 * kernels miss its caller. On kernels that do not, the stack is read again.
 */
AM_INLINE u64 am_entered_stack(void *ctx, int class, u64 top)
{
	struct am_stack *stack = am_scratch_of(class);
	u64 caller = 0;
	long size;

	if (!stack)
		return 0;
	stack->word[2] = 0;
	size = bpf_get_stack(ctx, stack->word + 1, (AM_STACK_FRAMES - 1) * 8, BPF_F_USER_STACK);
	if (size <= 0)
		return 0;
	if (am_read_user(&caller, sizeof(caller), (void *)top) || stack->word[2] == caller)
		return am_native_stack(ctx, class, AM_KIND_USER);
	stack->word[0] = stack->word[1];
	stack->word[1] = caller;
	return am_call_keep_stack(stack, AM_KIND_USER, (u32)size / 8 + 1);
}

#define AM_KERNEL_STACK am_native_stack(ctx, AM_STACK_CLASS, AM_KIND_KERNEL)
#define AM_USER_STACK am_native_stack(ctx, AM_STACK_CLASS, AM_KIND_USER)
#define AM_ENTERED_USER_STACK am_entered_stack(ctx, AM_STACK_CLASS, AM_STACK_POINTER)

#endif
