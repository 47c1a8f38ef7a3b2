/* SPDX-License-Identifier: Apache-2.0 */
/* Part of a program: returns if the filter does not hold. */
#ifdef AM_USES_COMM
	char am_comm[16] __attribute__((aligned(8))) = {};
	if (!am_nobody)
		bpf_get_current_comm(am_comm, sizeof(am_comm));
#endif
#ifdef AM_FILTER
	if (!(AM_FILTER))
		return 0;
#endif
