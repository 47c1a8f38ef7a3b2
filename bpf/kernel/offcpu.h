/* SPDX-License-Identifier: Apache-2.0 */
/* Waits of threads: the data kept from the moment a thread stops until it runs again. */
#ifndef ACCEL_MAGIC_OFFCPU_H
#define ACCEL_MAGIC_OFFCPU_H

/* In step with accel_magic/kernel/attach/waits.py. */
#define AM_WAIT_STACKS 3

struct am_wait {
	u64 time;
	u32 pid;
	u32 tid;
	char comm[16];
	u32 cpu;
	u32 state; /* the kernel's task state; 0: the thread was runnable */
	s64 syscall; /* number of the thread's current system call, or -1 */
	u64 arguments[2];
	u64 stacks[AM_WAIT_STACKS];
};

#define AM_TASK_DEAD 0x80
#define AM_NO_SYSCALL -1
#define AM_CS_64_BIT 0x33
#define AM_X32_CALL 0x40000000

/* Missing in BCC's header (Linux >= 5.15). */
static void *(*am_task_registers)(void *task) = (void *)175;

/* From si to cs in struct pt_regs. */
struct am_wait_registers {
	u64 si, di, orig_ax, ip, cs;
};

AM_INLINE void am_read_call(struct am_wait *wait)
{
	struct am_wait_registers registers = {};
	void *task = am_current_task();
	char *saved = am_task_registers(task);
	s32 number;

	wait->syscall = AM_NO_SYSCALL;
	if (bpf_probe_read_kernel(&registers, sizeof(registers), saved + __builtin_offsetof(struct pt_regs, si)))
		return;
	number = registers.orig_ax;
	/*
	 * After interrupts and faults in user code there is no call number, kernel threads have no user code, and the
	 * numbers of 32-bit and x32 calls have other meanings.
	 */
	if ((u16)registers.cs != AM_CS_64_BIT || number < 0 || number & AM_X32_CALL || am_in_32_bit_call(task))
		return;
	wait->syscall = number;
	wait->arguments[0] = registers.di;
	wait->arguments[1] = registers.si;
}

#endif
