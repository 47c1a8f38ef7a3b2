/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading members of the kernel's structs, whose offsets are found when a program is loaded (CO-RE). Needs
 * <vmlinux.h> and <bpf/bpf_helpers.h> before it. Programs for a GPU have no kernel to read.
 */
#ifndef __BPF_CORE_READ_H__
#define __BPF_CORE_READ_H__

#define bpf_core_read(to, size, from) \
	bpf_probe_read_kernel(to, size, (const void *)__builtin_preserve_access_index(from))

/* One member; through pointers, up to six: BPF_CORE_READ(task, mm, owner, tgid) is task->mm->owner->tgid. */
#define AM_MEMBER_1(from, a)                                                                               \
	({                                                                                                 \
		__typeof__(*(from)) *am_from = (from);                                                     \
		__typeof__(am_from->a) am_member;                                                          \
		bpf_core_read(&am_member, sizeof(am_member), &am_from->a);                                 \
		am_member;                                                                                 \
	})
#define AM_MEMBER_2(from, a, b) AM_MEMBER_1(AM_MEMBER_1(from, a), b)
#define AM_MEMBER_3(from, a, b, c) AM_MEMBER_1(AM_MEMBER_2(from, a, b), c)
#define AM_MEMBER_4(from, a, b, c, d) AM_MEMBER_1(AM_MEMBER_3(from, a, b, c), d)
#define AM_MEMBER_5(from, a, b, c, d, e) AM_MEMBER_1(AM_MEMBER_4(from, a, b, c, d), e)
#define AM_MEMBER_6(from, a, b, c, d, e, f) AM_MEMBER_1(AM_MEMBER_5(from, a, b, c, d, e), f)
#define AM_MEMBER_N_(count) AM_MEMBER_##count
#define AM_MEMBER_N(count) AM_MEMBER_N_(count)
#define BPF_CORE_READ(from, members...) AM_MEMBER_N(AM_COUNT(members))(from, ##members)

#endif
