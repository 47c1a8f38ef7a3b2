/* SPDX-License-Identifier: Apache-2.0 */
/* Macros to fill a record's payload and to read a function's arguments (x86-64 System V calling convention). */
#ifndef ACCEL_MAGIC_PAYLOAD_H
#define ACCEL_MAGIC_PAYLOAD_H

#define AM_STRING_SIZE 64

#define AM_REGISTERS ((struct pt_regs *)ctx)
#define AM_STACK_POINTER (AM_REGISTERS->sp)

/* Copies a tracepoint's own fields, from byte 8 (after the common ones) to `end`, with aligned loads. */
#define AM_COPY_FIELDS(end)                                                                                    \
	{                                                                                                      \
		_Pragma("unroll") for (int at = 8; at + 8 <= (end); at += 8) *(u64 *)(payload + at - 8) =      \
			*(u64 *)((char *)AM_FIELDS + at);                                                            \
		if ((end) & 4)                                                                                 \
			*(u32 *)(payload + ((end) & ~7) - 8) = *(u32 *)((char *)AM_FIELDS + ((end) & ~7));           \
		if ((end) & 2)                                                                                 \
			*(u16 *)(payload + ((end) & ~3) - 8) = *(u16 *)((char *)AM_FIELDS + ((end) & ~3));           \
		if ((end) & 1)                                                                                 \
			*(u8 *)(payload + ((end) & ~1) - 8) = *(u8 *)((char *)AM_FIELDS + ((end) & ~1));             \
	}

/* A `__data_loc char[]` field: its locator has the string's offset in the record (low half) and its length. */
#define AM_COPY_STRING(at, locator)                                                                            \
	if (bpf_probe_read_kernel_str(payload + (at), AM_STRING_SIZE,                                          \
				      (char *)ctx + (u16) * (u32 *)((char *)ctx + (locator))) < 0)             \
		*(payload + (at)) = 0;

#define AM_PUT(at, value) *(u64 *)(payload + (at)) = (u64)(value);

#define AM_PUT_USER_STRING(at, address)                                                                        \
	if (am_read_user_str(payload + (at), AM_STRING_SIZE, (void *)(address)) < 0)                    \
		*(payload + (at)) = 0;

#define AM_PUT_KERNEL_STRING(at, address)                                                                      \
	if (bpf_probe_read_kernel_str(payload + (at), AM_STRING_SIZE, (void *)(address)) < 0)                  \
		*(payload + (at)) = 0;

/* A value in kernel memory; 0 if it cannot be read. */
#define AM_READ_KERNEL(type, address)                                                                          \
	({                                                                                                     \
		type value = 0;                                                                                \
		bpf_probe_read_kernel(&value, sizeof(value), (void *)(address));                               \
		value;                                                                                         \
	})

/* An argument in the traced program's memory; 0 if the page is not present. */
#define AM_READ_USER(type, address)                                                                            \
	({                                                                                                     \
		type value = 0;                                                                                \
		am_read_user(&value, sizeof(value), (void *)(address));                                 \
		value;                                                                                         \
	})

#endif
