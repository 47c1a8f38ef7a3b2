/* x86-64 registers as BPF programs on kprobes and uprobes see them (arch/x86/include/asm/ptrace.h). */
#ifndef ACCEL_MAGIC_LINUX_PTRACE_H
#define ACCEL_MAGIC_LINUX_PTRACE_H

struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

#endif
