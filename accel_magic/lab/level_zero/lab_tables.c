/* SPDX-License-Identifier: Apache-2.0 */
/* Function tables for the loader: it calls an exported function to fill each table. The order within a table is that of
 * the specification; later versions only append. For entries left NULL the loader returns that the feature is not
 * supported.
 */
#include "lab_driver.h"

#define EXPORT __attribute__((visibility("default")))
#define ENTRIES(table) (sizeof(table) / sizeof(*(table)))
#define AT(place, name) [place] = (entry)lab_##name

static const entry global_table[] = { AT(0, zeInit) };
static const entry driver_table[] = { AT(0, zeDriverGet), AT(1, zeDriverGetApiVersion), AT(2, zeDriverGetProperties),
				       AT(4, zeDriverGetExtensionProperties), AT(5, zeDriverGetExtensionFunctionAddress) };
static const entry device_table[] = { AT(0, zeDeviceGet), AT(2, zeDeviceGetProperties),
				      AT(5, zeDeviceGetCommandQueueGroupProperties),
				      AT(10, zeDeviceGetExternalMemoryProperties), AT(13, zeDeviceGetStatus),
				      AT(14, zeDeviceGetGlobalTimestamps), AT(17, zeDevicePciGetPropertiesExt) };
static const entry context_table[] = { AT(0, zeContextCreate), AT(1, zeContextDestroy) };
static const entry queue_table[] = { AT(0, zeCommandQueueCreate), AT(1, zeCommandQueueDestroy),
				     AT(2, zeCommandQueueExecuteCommandLists), AT(3, zeCommandQueueSynchronize) };
static const entry list_table[] = {
	AT(0, zeCommandListCreate),
	AT(1, zeCommandListCreateImmediate),
	AT(2, zeCommandListDestroy),
	AT(3, zeCommandListClose),
	AT(4, zeCommandListReset),
	AT(5, zeCommandListAppendWriteGlobalTimestamp),
	AT(6, zeCommandListAppendBarrier),
	AT(8, zeCommandListAppendMemoryCopy),
	AT(18, zeCommandListAppendSignalEvent),
	AT(19, zeCommandListAppendWaitOnEvents),
	AT(20, zeCommandListAppendEventReset),
};
static const entry newer_list_table[] = { AT(28, zeCommandListHostSynchronize) };
static const entry list_extension_table[] = { AT(2, zeCommandListGetNextCommandIdExp),
					      AT(3, zeCommandListUpdateMutableCommandsExp) };
static const entry event_pool_table[] = { AT(0, zeEventPoolCreate), AT(1, zeEventPoolDestroy) };
static const entry event_table[] = { AT(0, zeEventCreate), AT(1, zeEventDestroy), AT(2, zeEventHostSignal),
				     AT(3, zeEventHostSynchronize), AT(4, zeEventQueryStatus), AT(5, zeEventHostReset) };
static const entry fence_table[] = { AT(0, zeFenceCreate), AT(1, zeFenceDestroy), AT(2, zeFenceHostSynchronize),
				     AT(3, zeFenceQueryStatus), AT(4, zeFenceReset) };
static const entry memory_table[] = { AT(0, zeMemAllocShared), AT(1, zeMemAllocDevice), AT(2, zeMemAllocHost),
				      AT(3, zeMemFree), AT(4, zeMemGetAllocProperties), AT(5, zeMemGetAddressRange) };

/* The tables of the NPU extensions, which programs get from zeDriverGetExtensionFunctionAddress. */
#define ENTRY(name, ...) (entry)lab_##name,
const entry graph_table[] = { GRAPH_FUNCTIONS(ENTRY) };
const entry profiling_table[] = { PROFILING_FUNCTIONS(ENTRY) };
const entry queue_extension_table[] = { QUEUE_FUNCTIONS(ENTRY) };
const entry context_extension_table[] = { CONTEXT_FUNCTIONS(ENTRY) };
#undef ENTRY

/* `since`: the version of the specification whose tables have these entries. */
static ze_result fill(uint32_t version, uint32_t since, entry *target, const entry *table, size_t entries)
{
	if (!target)
		return ZE_INVALID_NULL_POINTER;
	if (ZE_MAJOR(version) != ZE_MAJOR(ZE_VERSION_1_0))
		return ZE_UNSUPPORTED_VERSION;
	if (version < since)
		return ZE_SUCCESS;
	for (size_t i = 0; i < entries; i++)
		target[i] = table[i] ? table[i] : target[i];
	return ZE_SUCCESS;
}

#define FILLED(getter, table, entries)                                            \
	EXPORT ze_result getter##ProcAddrTable(uint32_t version, entry *target);  \
	ze_result getter##ProcAddrTable(uint32_t version, entry *target)          \
	{                                                                         \
		return fill(version, ZE_VERSION_1_0, target, table, entries);                     \
	}
#define TABLE(getter, table) FILLED(getter, table, ENTRIES(table))
#define EMPTY(getter) FILLED(getter, NULL, 0)

TABLE(zeGetGlobal, global_table)
TABLE(zeGetDriver, driver_table)
TABLE(zeGetDevice, device_table)
TABLE(zeGetContext, context_table)
TABLE(zeGetCommandQueue, queue_table)
TABLE(zeGetEventPool, event_pool_table)
TABLE(zeGetEvent, event_table)
TABLE(zeGetFence, fence_table)
TABLE(zeGetMem, memory_table)

#define LISTS_SYNCHRONIZE ZE_VERSION(1, 6)
#define LISTS_CHANGE ZE_VERSION(1, 9)

bool lists_can_change;

EXPORT ze_result zeGetCommandListProcAddrTable(uint32_t version, entry *target);
ze_result zeGetCommandListProcAddrTable(uint32_t version, entry *target)
{
	ze_result result = fill(version, ZE_VERSION_1_0, target, list_table, ENTRIES(list_table));

	return result ? result : fill(version, LISTS_SYNCHRONIZE, target, newer_list_table, ENTRIES(newer_list_table));
}

EXPORT ze_result zeGetCommandListExpProcAddrTable(uint32_t version, entry *target);
ze_result zeGetCommandListExpProcAddrTable(uint32_t version, entry *target)
{
	lists_can_change = version >= LISTS_CHANGE;
	return fill(version, LISTS_CHANGE, target, list_extension_table, ENTRIES(list_extension_table));
}

/* The loader rejects a driver that lacks any of these tables. */
#define EMPTY_TABLES(E)                                                                                              \
	E(zeGetDeviceExp) E(zeGetDriverExp) E(zeGetEventExp)                                                        \
	E(zeGetFabricEdgeExp) E(zeGetFabricVertexExp) E(zeGetImageExp) E(zeGetImage)                  \
	E(zeGetKernelExp) E(zeGetKernel) E(zeGetMemExp) E(zeGetModuleBuildLog) E(zeGetModule)                       \
	E(zeGetPhysicalMem) E(zeGetRTASBuilderExp) E(zeGetRTASBuilder) E(zeGetRTASParallelOperationExp)             \
	E(zeGetRTASParallelOperation) E(zeGetSampler) E(zeGetVirtualMem) E(zesGetDeviceExp)      \
	E(zesGetDevice) E(zesGetDiagnostics) E(zesGetDriverExp) E(zesGetDriver) E(zesGetEngine)                     \
	E(zesGetFabricPort) E(zesGetFan) E(zesGetFirmwareExp) E(zesGetFirmware) E(zesGetFrequency)                  \
	E(zesGetGlobal) E(zesGetLed) E(zesGetMemory) E(zesGetOverclock) E(zesGetPerformanceFactor)                  \
	E(zesGetPower) E(zesGetPsu) E(zesGetRasExp) E(zesGetRas) E(zesGetScheduler) E(zesGetStandby)                \
	E(zesGetTemperature) E(zesGetVFManagementExp) E(zetGetCommandListExp) E(zetGetCommandList)                  \
	E(zetGetContext) E(zetGetDebug) E(zetGetDeviceExp) E(zetGetDevice) E(zetGetKernel)                          \
	E(zetGetMetricDecoderExp) E(zetGetMetricExp) E(zetGetMetricGroupExp) E(zetGetMetricGroup)                   \
	E(zetGetMetric) E(zetGetMetricProgrammableExp) E(zetGetMetricQueryPool) E(zetGetMetricQuery)                \
	E(zetGetMetricStreamer) E(zetGetMetricTracerExp) E(zetGetModule) E(zetGetTracerExp)

EMPTY_TABLES(EMPTY)
