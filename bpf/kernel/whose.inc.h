/* SPDX-License-Identifier: Apache-2.0 */
/* Part of a program: whether the hit is of a process in scope, and else, in an interrupt, of no process. */
#if AM_TREE == AM_OWN_AND_KERNEL
	const int am_own = am_in_tree(am_pid), am_nobody = !am_own && am_in_interrupt();

	if (am_nobody)
		pid_tgid = am_pid = am_tid = 0;
#else
	const int am_own = 1, am_nobody = 0;
#endif
