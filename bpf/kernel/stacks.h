/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of a hit: each different one is kept once, in a table, under the hash that the record carries.
 *
 * The table is an ordinary hash map: unlike the kernel's own table of stacks it never takes one stack for another that
 * falls into the same place, and it holds stacks of Python too. Where it is full the record has a hash that the table
 * does not know, which user space counts.
 *
 * Constants given before this header: AM_STACK_FRAMES, how many frames are taken of a native stack and of the kernel's at
 * the most; AM_STACK_WORDS, a power of two that holds them and Python's. Constant of each program: AM_STACK_CLASS, what
 * may interrupt it while it puts a stack together.
 */
#ifndef ACCEL_MAGIC_STACKS_H
#define ACCEL_MAGIC_STACKS_H

/* In step with accel_magic/kernel/attach/stack_maps.py. */
#define AM_KIND_KERNEL 0
#define AM_KIND_USER 1
#define AM_KIND_PYTHON 2
#define AM_OWNER_SHIFT 8

#define AM_CLASS_PERF 0	  /* an interrupt's: nothing of its class interrupts it on its CPU */
#define AM_CLASS_RAW 1	  /* a raw tracepoint's */
#define AM_CLASS_KERNEL 2 /* a kprobe's or a tracepoint's */
#define AM_CLASS_USER 3	  /* a user-space probe's: another task may run one on the same CPU before it has ended */
#define AM_USER_SLOTS 1024

struct am_stack {
	u32 kind; /* and above it the process, which tells what the addresses mean; 0 for the kernel's */
	u32 words;
	u64 word[AM_STACK_WORDS];
};

/*
 * Where a stack is put together, as programs have too little stack of their own: an array with a place for each CPU in
 * each class, then those of tasks. Only the verifier thinks that there may be none.
 */
AM_INLINE struct am_stack *am_scratch_of(int class)
{
	u32 at = class * AM_CPUS + (bpf_get_smp_processor_id() & (AM_CPUS - 1));

	if (class == AM_CLASS_USER)
		at = 3 * AM_CPUS + ((u32)bpf_get_current_pid_tgid() & (AM_USER_SLOTS - 1));
	return bpf_map_lookup_elem_(AM_MAP(AM_SCRATCH), &at);
}

/*
 * How many words a stack has, read anew. Known to the verifier, the number would make every depth a case of its own;
 * known to the compiler (LLVM 18 and later), it would be counted down in loops, and the verifier would see no end.
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

/* Key of a stack that is put together, never 0. */
AM_INLINE u64 am_stack_key(struct am_stack *stack, u32 kind, u32 words)
{
	u32 owner = kind == AM_KIND_KERNEL ? 0 : bpf_get_current_pid_tgid() >> 32;
	struct am_hashing hashing = {stack, (u64)words << 40 | (u64)owner << 8 | (kind + 1)};

	stack->kind = kind | owner << AM_OWNER_SHIFT;
	stack->words = words;
	if (words & 1) /* pairs are hashed */
		stack->word[words & (AM_STACK_WORDS - 1)] = 0;
	AM_REPEAT(AM_STACK_WORDS / 2, am_hash_words, AM_DO_HASH_WORDS, &hashing);
	return hashing.hash | 1;
}

/* Puts a stack into the table unless it is there; returns its key. */
AM_SHARED(u64, am_keep_stack)(struct am_stack *stack, u32 kind, u32 words)
{
	u64 key = am_stack_key(stack, kind, words);

	if (!bpf_map_lookup_elem_(AM_MAP(AM_STACKS), &key))
		bpf_map_update_elem_(AM_MAP(AM_STACKS), &key, stack, BPF_NOEXIST);
	return key;
}

static u64 (*am_call_keep_stack)(struct am_stack *stack, u32 kind, u32 words) = AM_FUNCTION(AM_DO_KEEP_STACK);

/*
 * Key of the stack of return addresses, the innermost first; 0 where there is none. A program takes its own: the kernel
 * counts from whoever asks.
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
 * The same of a function that is being entered: its return address lies on top of the stack. It keeps no frame yet, and
 * most kernels miss its caller. Those that do not are asked again.
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
