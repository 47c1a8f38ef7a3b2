/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls through the raw tracepoints sys_enter (registers, number) and sys_exit (registers, return value): they cost
 * less than perf's tracepoints of each call, one link serves any number of calls, and they detach at once. What a program
 * sees is laid out as in the records of perf's tracepoints, so fields and filters are the same.
 * Constant given before this header: AM_SYSCALL_TABLES (programs that use the table).
 */
#ifndef ACCEL_MAGIC_SYSCALL_H
#define ACCEL_MAGIC_SYSCALL_H

#define AM_SYSCALL_NUMBERS 512
#define AM_USER_CS 0x33 /* the code segment of 64-bit programs: 32-bit ones number their calls otherwise */

/* The cookie of each call's probe point, plus one; 0 for calls that are not traced. */
struct am_syscalls {
	u32 cookies[AM_SYSCALL_TABLES][AM_SYSCALL_NUMBERS];
};

/* From r10 to cs in struct pt_regs. */
struct am_call_registers {
	u64 r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs;
};

struct am_syscall_record {
	u64 common;
	u64 number;
	u64 arguments[6];
};

AM_INLINE u32 am_syscall_cookie(u64 number, u32 table)
{
	struct am_syscalls *syscalls = AM_VALUE(AM_SYSCALLS);

	if (number >= AM_SYSCALL_NUMBERS)
		return 0;
	return syscalls->cookies[table][number];
}

AM_INLINE void am_read_registers(struct am_call_registers *to, u64 registers)
{
	if (bpf_probe_read_kernel(to, sizeof(*to), (void *)(registers + __builtin_offsetof(struct pt_regs, r10))))
		to->cs = 0;
}

AM_INLINE u64 am_read_number(u64 registers)
{
	u64 number = ~0ULL;

	bpf_probe_read_kernel(&number, sizeof(number),
			      (void *)(registers + __builtin_offsetof(struct pt_regs, orig_ax)));
	return number;
}

AM_INLINE void am_entry_record(struct am_syscall_record *record, struct am_call_registers *registers)
{
	record->number = (u32)registers->orig_ax;
	record->arguments[0] = registers->di;
	record->arguments[1] = registers->si;
	record->arguments[2] = registers->dx;
	record->arguments[3] = registers->r10;
	record->arguments[4] = registers->r8;
	record->arguments[5] = registers->r9;
}

/* Statements that open a program: its cookie, and its record where the program looks at one. */
#define AM_SYSCALL_ENTER(table)                                                                                \
	struct am_syscall_record am_call_record = {};                                                          \
	u32 cookie = am_syscall_cookie(((u64 *)ctx)[1], table);                                                \
	if (!cookie)                                                                                           \
		return 0;                                                                                      \
	cookie -= 1;

#define AM_SYSCALL_EXIT(table)                                                                                 \
	struct am_syscall_record am_call_record = {};                                                          \
	u64 number = am_read_number(((u64 *)ctx)[0]);                                                          \
	u32 cookie = am_syscall_cookie(number, table);                                                         \
	if (!cookie)                                                                                           \
		return 0;                                                                                      \
	cookie -= 1;                                                                                           \
	am_call_record.number = number;                                                                        \
	am_call_record.arguments[0] = ((u64 *)ctx)[1];

/* After the scope is checked: 32-bit programs are left out, and an entry's arguments are read. */
#define AM_SYSCALL_ARGUMENTS                                                                                   \
	struct am_call_registers am_registers;                                                                 \
	am_read_registers(&am_registers, ((u64 *)ctx)[0]);                                                     \
	if (am_registers.cs != AM_USER_CS)                                                                     \
		return 0;                                                                                      \
	am_entry_record(&am_call_record, &am_registers);

#define AM_SYSCALL_64_BIT                                                                                      \
	struct am_call_registers am_registers;                                                                 \
	am_read_registers(&am_registers, ((u64 *)ctx)[0]);                                                     \
	if (am_registers.cs != AM_USER_CS)                                                                     \
		return 0;

#endif
