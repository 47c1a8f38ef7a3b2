/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces that somebody else attached for a user: what a driver does for all users, and the kernel's addresses.
 *
 * In a driver's functions (AM_TREE is AM_OWN_AND_KERNEL), hits of processes in scope, of kernel threads and in
 * interrupts count, those of other processes do not. An interrupt has nothing to do with the task that it interrupts,
 * so outside of the user's own processes it has no process and no name. Kernel addresses are replaced by numbers that
 * identify them within the trace.
 *
 * Constants, from the kernel's BTF: AM_TASK_FLAGS, offset of `flags` in struct task_struct; AM_PREEMPT_COUNT, id of the
 * variable with the preemption count, and AM_PREEMPT_COUNT_AT, its offset there; not defined if programs cannot read it.
 */
#ifndef ACCEL_MAGIC_FOR_USER_H
#define ACCEL_MAGIC_FOR_USER_H

#define AM_KERNEL_THREAD 0x00200000 /* PF_KTHREAD */
/* Bits of the preemption count: NMIs, hard interrupts, and the soft interrupt that is being served. */
#define AM_INTERRUPTS 0x00ff0100
#define AM_FIRST_ADDRESS 0xff00000000000000ULL /* with five levels of page tables */
#define AM_FIRST_NUMBER 0xffff800000000000ULL
#define AM_FIRST_ERROR (-4095ULL)

/* Missing in BCC's header. */
static void *(*am_this_cpu)(const void *variable) = (void *)154;

struct am_secret {
	u64 key[2];
};

AM_INLINE int am_in_interrupt(void)
{
#ifdef AM_PREEMPT_COUNT
	const char *count = am_this_cpu((void *)bpf_pseudo_fd(3, AM_PREEMPT_COUNT));

	return *(const volatile u32 *)(count + AM_PREEMPT_COUNT_AT) & AM_INTERRUPTS;
#else
	return 0;
#endif
}

AM_INLINE int am_in_kernel_thread(void)
{
	const char *task = am_current_task();

	return *(const volatile u32 *)(task + AM_TASK_FLAGS) & AM_KERNEL_THREAD;
}

/* Whether a hit is about an object that a process in scope has created: its own ones create them, where `creates`. */
AM_INLINE int am_is_own_object(u64 object, int own, int creates)
{
	u8 known = 1;

	if (!own)
		return bpf_map_lookup_elem_(AM_MAP(AM_OBJECTS), &object) != 0;
	if (creates)
		bpf_map_update_elem_(AM_MAP(AM_OBJECTS), &object, &known, BPF_ANY);
	return 1;
}

#define AM_ROTATE(word, by) ((word) << (by) | (word) >> (64 - (by)))

#define AM_SIP_ROUND                                                                                           \
	{                                                                                                      \
		a += b; b = AM_ROTATE(b, 13) ^ a; a = AM_ROTATE(a, 32);                                        \
		c += d; d = AM_ROTATE(d, 16) ^ c;                                                              \
		a += d; d = AM_ROTATE(d, 21) ^ a;                                                              \
		c += b; b = AM_ROTATE(b, 17) ^ c; c = AM_ROTATE(c, 32);                                        \
	}

/*
 * The number that stands for an address: SipHash-1-3 of its 8 bytes with the trace's key, among the lower addresses of
 * the kernel, so that it is neither an error nor a small number.
 */
AM_SHARED(u64, am_hide)(u64 address)
{
	const struct am_secret *secret = AM_VALUE(AM_SECRET);
	u64 a = secret->key[0] ^ 0x736f6d6570736575ULL, b = secret->key[1] ^ 0x646f72616e646f6dULL;
	u64 c = secret->key[0] ^ 0x6c7967656e657261ULL, d = secret->key[1] ^ 0x7465646279746573ULL;

	d ^= address;
	AM_SIP_ROUND
	a ^= address;
	d ^= 8ULL << 56;
	AM_SIP_ROUND
	a ^= 8ULL << 56;
	c ^= 0xff;
	AM_SIP_ROUND
	AM_SIP_ROUND
	AM_SIP_ROUND
	return ((a ^ b ^ c ^ d) >> 18) | AM_FIRST_NUMBER;
}

static u64 (*am_call_hide)(u64 address) = AM_FUNCTION(AM_DO_HIDE);

#define AM_HIDDEN(value)                                                                                       \
	({                                                                                                     \
		u64 am_shown = (u64)(value);                                                                   \
		if (am_shown >= AM_FIRST_ADDRESS && am_shown < AM_FIRST_ERROR)                                 \
			am_shown = am_call_hide(am_shown);                                                     \
		am_shown;                                                                                      \
	})

#endif
