/* SPDX-License-Identifier: Apache-2.0 */
/* Of the kernel's structs, those that policies of a GPU's driver use, beside the types that all programs have. */
#ifndef GPU_POLICY_VMLINUX_H
#define GPU_POLICY_VMLINUX_H

#include_next <vmlinux.h>

#define AM_TRACE_VPRINTK /* policies have this helper */

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif
struct list_head {
	struct list_head *next, *prev;
};

struct task_struct {
	int pid, tgid;
	char comm[16];
};

struct mm_struct {
	struct task_struct *owner;
};
#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#endif
