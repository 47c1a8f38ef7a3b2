/* SPDX-License-Identifier: Apache-2.0 */
/* What Debian 12's loader lacks and OpenVINO looks up (loader.py). It is not called for NPUs, which have no immediate
 * lists in OpenVINO.
 */
#include "ze_api.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT zeCommandListHostSynchronize_type zeCommandListHostSynchronize;

ze_result zeCommandListHostSynchronize(ze_list list, uint64_t timeout_ns)
{
	(void)list, (void)timeout_ns;
	return ZE_UNSUPPORTED_FEATURE;
}
