/* SPDX-License-Identifier: Apache-2.0 */
/* Head of a program, or of one part of a program (AM_PART), which is called with the cookie that selected it. */
#ifdef AM_PART
AM_INLINE int AM_NAME(void *ctx, u64 cookie)
#else
AM_PROGRAM(AM_NAME)(void *ctx)
#endif
