/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code between patched functions and hits.c. All general registers are preserved, and no other is touched: functions that
 * are local to a library may have callers that rely on that.
 *
 * A measured call returns to a thunk, which is another one for each call in progress. Unwinders find the real return address
 * by the rules here; see docs/architecture.md.
 */
#include "hits.h"

	.text
	.globl accel_magic_entry
	.hidden accel_magic_entry
	.type accel_magic_entry,@function
	.p2align 6
/*
 * Called by a function's stub. rax: the point. On the stack: the return into the stub, rax, the function's return address.
 * To unwinders, the caller is that of the function: the CFA is behind the function's return address.
 */
accel_magic_entry:
	.cfi_startproc
	.cfi_def_cfa rsp, 24
	.cfi_offset rip, -8
	push %rcx
	.cfi_adjust_cfa_offset 8
	push %rdx
	.cfi_adjust_cfa_offset 8
	push %rsi
	.cfi_adjust_cfa_offset 8
	push %rdi
	.cfi_adjust_cfa_offset 8
	push %r8
	.cfi_adjust_cfa_offset 8
	push %r9
	.cfi_adjust_cfa_offset 8
	push %r10
	.cfi_adjust_cfa_offset 8
	push %r11
	.cfi_adjust_cfa_offset 8
	mov %rax, %rdi
	mov %rsp, %rsi
	sub $8, %rsp
	.cfi_adjust_cfa_offset 8
	call accel_magic_entered
	add $8, %rsp
	.cfi_adjust_cfa_offset -8
	pop %r11
	.cfi_adjust_cfa_offset -8
	pop %r10
	.cfi_adjust_cfa_offset -8
	pop %r9
	.cfi_adjust_cfa_offset -8
	pop %r8
	.cfi_adjust_cfa_offset -8
	pop %rdi
	.cfi_adjust_cfa_offset -8
	pop %rsi
	.cfi_adjust_cfa_offset -8
	pop %rdx
	.cfi_adjust_cfa_offset -8
	pop %rcx
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size accel_magic_entry,.-accel_magic_entry

/*
 * Thunks: 16 bytes for each call in progress, 256 in a page. The first 8 bytes of a page have its distance to the page of the
 * return addresses, so that one rule serves all pages:
 *   CFA = rsp + 8, and 8 more after the push, that is if rip & 15 is not 0
 *   rsp = CFA - 8
 *   return address at page + *page + (rip & 0xff0), page = rip & ~0xfff
 * libgcc identifies the frame of a handler by the CFA below it, so a thunk's frame may not have its caller's CFA.
 */
	.set PAGES, THREADS * CALLS_PER_THREAD / 256
	.section .text.thunks,"ax",@progbits
	.balign 4096
	.cfi_startproc
	.cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x30, 0x2e, 0x33, 0x24, 0x22
	.cfi_escape 0x16, 7, 2, 0x38, 0x1c
	.cfi_escape 0x10, 16, 17, 0x80, 0, 0x0a, 0xff, 0x0f, 0x20, 0x1a, 0x12, 0x06, 0x22, 0x80, 0, 0x0a, 0xf0, 0x0f, 0x1a, 0x22
	.fill 4096,1,0x90 /* unwinders look one byte before a return address */
	.globl accel_magic_thunks
	.hidden accel_magic_thunks
	.type accel_magic_thunks,@function
accel_magic_thunks:
	.set at, 0
	.rept PAGES
	.quad accel_magic_returns + at * THUNK_BYTES - .
	.fill 8,1,0xcc
	.set at, at + 1
	.rept 255
	push $at
	jmp accel_magic_return
	.balign THUNK_BYTES, 0xcc
	.set at, at + 1
	.endr
	.endr
	.cfi_endproc
	.size accel_magic_thunks,.-accel_magic_thunks

/*
 * The number of the call is where its return address was; that is put back, so that unwinders see a plain frame. Until then,
 * its address is table + 16 * number, table = page + *page.
 */
	.balign 4096
return_page:
	.quad accel_magic_returns - return_page
	.balign 64
	.type accel_magic_return,@function
accel_magic_return:
	.cfi_startproc
	.cfi_escape 0x10, 16, 16, 0x38, 0x1c, 0x06, 0x34, 0x24, 0x80, 0, 0x0a, 0xff, 0x0f, 0x20, 0x1a, 0x12, 0x06, 0x22, 0x22
	push %rax
	.cfi_adjust_cfa_offset 8
	push %rcx
	.cfi_adjust_cfa_offset 8
	push %rdx
	.cfi_adjust_cfa_offset 8
	push %rsi
	.cfi_adjust_cfa_offset 8
	push %rdi
	.cfi_adjust_cfa_offset 8
	mov 40(%rsp), %rdi
	lea accel_magic_returns(%rip), %rax
	mov %rdi, %rcx
	shl $4, %rcx
	mov (%rax, %rcx), %rax
	mov %rax, 40(%rsp)
	.cfi_offset rip, -8
	push %r8
	.cfi_adjust_cfa_offset 8
	push %r9
	.cfi_adjust_cfa_offset 8
	push %r10
	.cfi_adjust_cfa_offset 8
	push %r11
	.cfi_adjust_cfa_offset 8
	push %rbx
	.cfi_adjust_cfa_offset 8
	.cfi_offset rbx, -88
	mov %rsp, %rsi
	mov %rsp, %rbx
	.cfi_def_cfa_register rbx
	and $-16, %rsp /* a function may return with any alignment */
	call accel_magic_returned
	mov %rbx, %rsp
	.cfi_def_cfa_register rsp
	pop %rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbx
	pop %r11
	.cfi_adjust_cfa_offset -8
	pop %r10
	.cfi_adjust_cfa_offset -8
	pop %r9
	.cfi_adjust_cfa_offset -8
	pop %r8
	.cfi_adjust_cfa_offset -8
	pop %rdi
	.cfi_adjust_cfa_offset -8
	pop %rsi
	.cfi_adjust_cfa_offset -8
	pop %rdx
	.cfi_adjust_cfa_offset -8
	pop %rcx
	.cfi_adjust_cfa_offset -8
	pop %rax
	.cfi_adjust_cfa_offset -8
	lea 8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	jmp *-8(%rsp) /* not ret: the processor's return stack is balanced already; signals leave 128 bytes below rsp alone */
	.cfi_endproc
	.size accel_magic_return,.-accel_magic_return

/* The return addresses of the calls in progress, private to the process, at the distance of thunks from each other. */
	.section .bss.returns,"aw",@nobits
	.balign 4096
	.globl accel_magic_returns
	.hidden accel_magic_returns
	.type accel_magic_returns,@object
accel_magic_returns:
	.zero THREADS * CALLS_PER_THREAD * THUNK_BYTES
	.size accel_magic_returns,.-accel_magic_returns
	.section .note.GNU-stack,"",@progbits
