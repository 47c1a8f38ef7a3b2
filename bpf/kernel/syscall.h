/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls through the raw tracepoints sys_enter (registers, number) and sys_exit (registers, return value): they cost
 * less than perf's tracepoints of each call, one link serves any number of calls, and they detach immediately. The record
 * built here has the layout of the perf tracepoints' records, so fields and filters are the same.
 * Constant defined before this header: AM_SYSCALL_TABLES (number of programs that use the table).
 */
#ifndef ACCEL_MAGIC_SYSCALL_H
#define ACCEL_MAGIC_SYSCALL_H

#define AM_SYSCALL_NUMBERS 512
#define AM_USER_CS 0x33 /* the code segment of 64-bit programs */

/* The cookie of each call's probe point, plus one; 0 for calls that are not traced. */
struct am_syscalls {
	u32 cookies[AM_SYSCALL_TABLES][AM_SYSCALL_NUMBERS];
};

/* From r10 to orig_ax in struct pt_regs. */
struct am_call_registers {
	u64 r10, r9, r8, ax, cx, dx, si, di, orig_ax;
};

struct am_syscall_record {
	u64 common;
	u64 number;
	u64 arguments[6];
};

/* The kernel uses only the lower half of a number. Numbers of x32 calls have bit 30 set, so they are not in the table. */
AM_INLINE u32 am_syscall_cookie(u32 call, u32 table)
{
	struct am_syscalls *syscalls = AM_VALUE(AM_SYSCALLS);
	u64 number = call;

	asm volatile("" : "+r"(number)); /* else the compiler masks again after the test, which verifiers do not track */
	if (number >= AM_SYSCALL_NUMBERS)
		return 0;
	return syscalls->cookies[table][number];
}

AM_INLINE void am_read_registers(struct am_call_registers *to, u64 registers)
{
	bpf_probe_read_kernel(to, sizeof(*to), (void *)(registers + __builtin_offsetof(struct pt_regs, r10)));
}

AM_INLINE u64 am_read_number(u64 registers)
{
	u64 number = ~0ULL;

	bpf_probe_read_kernel(&number, sizeof(number),
			      (void *)(registers + __builtin_offsetof(struct pt_regs, orig_ax)));
	return number;
}

/*
 * Whether the call is a 32-bit one, and its process and thread: read directly from the task, because calling a helper for
 * each costs more than the rest of the program. Without BTF only the code segment is known, so int $0x80 in 64-bit
 * code is not recognized.
 */
#ifdef AM_TASK_STATUS
#define AM_SYSCALL_TASK void *am_task = am_current_task();
#define AM_IS_32_BIT_CALL(registers) am_in_32_bit_call(am_task)
#define AM_SYSCALL_PID_TGID                                                                                    \
	((u64) * (const volatile u32 *)(am_task + AM_TASK_TGID) << 32 |                                        \
	 *(const volatile u32 *)(am_task + AM_TASK_PID))
#else
#define AM_SYSCALL_TASK
#define AM_IS_32_BIT_CALL(registers) am_is_32_bit_program(registers)
#define AM_SYSCALL_PID_TGID bpf_get_current_pid_tgid()

AM_INLINE int am_is_32_bit_program(u64 registers)
{
	u64 cs = 0;

	bpf_probe_read_kernel(&cs, sizeof(cs), (void *)(registers + __builtin_offsetof(struct pt_regs, cs)));
	return cs != AM_USER_CS;
}
#endif

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

/* Statements at the start of a program that declare its cookie and its record. */
#define AM_SYSCALL_ENTER(table)                                                                                \
	struct am_syscall_record am_call_record = {};                                                          \
	u32 cookie = am_syscall_cookie(((u32 *)ctx)[2], table);                                                \
	if (!cookie)                                                                                           \
		return 0;                                                                                      \
	AM_SYSCALL_TASK                                                                                        \
	if (AM_IS_32_BIT_CALL(((u64 *)ctx)[0]))                                                                \
		return 0;                                                                                      \
	cookie -= 1;

#define AM_SYSCALL_EXIT(table)                                                                                 \
	struct am_syscall_record am_call_record = {};                                                          \
	u64 number = am_read_number(((u64 *)ctx)[0]);                                                          \
	u32 cookie = am_syscall_cookie(number, table);                                                         \
	if (!cookie)                                                                                           \
		return 0;                                                                                      \
	AM_SYSCALL_TASK                                                                                        \
	if (AM_IS_32_BIT_CALL(((u64 *)ctx)[0]))                                                                \
		return 0;                                                                                      \
	cookie -= 1;                                                                                           \
	am_call_record.number = (u32)number;                                                                        \
	am_call_record.arguments[0] = ((u64 *)ctx)[1];

/* Reads an entry's arguments, after the scope check. */
#define AM_SYSCALL_ARGUMENTS                                                                                   \
	struct am_call_registers am_registers = {};                                                            \
	am_read_registers(&am_registers, ((u64 *)ctx)[0]);                                                     \
	am_entry_record(&am_call_record, &am_registers);

#endif
