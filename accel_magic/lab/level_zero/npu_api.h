/* SPDX-License-Identifier: Apache-2.0 */
/* Level Zero's extensions for NPUs, as far as OpenVINO uses them: their structures, and the tables of functions that a
 * driver returns for their names. Transcribed from the published interface (graph extension 1.18), whose tables only
 * grow. tests/unit/lab checks sizes and offsets.
 */
#ifndef ACCEL_MAGIC_NPU_API_H
#define ACCEL_MAGIC_NPU_API_H

#include <stdbool.h>

#include "ze_api.h"

#define GRAPH_EXTENSION "ZE_extension_graph"
#define PROFILING_EXTENSION "ZE_extension_profiling_data"
#define QUEUE_EXTENSION "ZE_extension_command_queue_npu"
#define CONTEXT_EXTENSION "ZE_extension_context_npu"
#define MUTABLE_LISTS_EXTENSION "ZE_experimental_mutable_command_list"

#define ZE_VERSION(major, minor) ((uint32_t)(major) << 16 | (minor))
#define GRAPH_VERSION ZE_VERSION(1, 18)
#define OPSET 16 /* the newest set of operations that the compiler accepts */

#define NPU_NAME 256
#define NPU_NAMES 32      /* maximum number of a tensor's names */
#define NPU_DIMENSIONS 5  /* of arguments */
#define NPU_SHAPE 8       /* of their metadata */

enum npu_kind { NPU_KIND_STRIDES = 0x9, NPU_KIND_TENSOR = 0xa };
enum npu_format { NPU_FORMAT_BLOB = 1, NPU_FORMAT_MODEL = 2 };
enum npu_argument_type { NPU_INPUT, NPU_OUTPUT };
enum npu_stage { NPU_STAGE_INITIALIZE = 2 };
enum npu_description_flag { NPU_ENABLE_PROFILING = 2 };
enum npu_graph_flag { NPU_COMPILED = 2, NPU_PROFILED = 16 };
enum npu_options { NPU_OPTIONS_COMPILER = 1 };
enum npu_layer_status { NPU_LAYER_EXECUTED = 3 };
enum npu_profiling_data { NPU_LAYERS = 1 };

typedef struct npu_graph *npu_graph;
typedef struct npu_query *npu_query;
typedef struct npu_pool *npu_pool;
typedef struct npu_slot *npu_slot;

/* In the first version without `flags`. */
struct npu_graph_description {
	ZE_HEAD;
	uint32_t format;
	size_t size;
	const uint8_t *input;
	const char *build_flags;
	uint32_t flags;
};

struct npu_device_graph_properties {
	ZE_HEAD;
	uint32_t version;
	uint16_t compiler_major, compiler_minor;
	uint32_t formats;
	uint32_t opset;
	uint32_t elf[3], runtime[3]; /* second version */
};

struct npu_graph_properties {
	ZE_HEAD;
	uint32_t arguments;
	uint32_t stages; /* second version */
	uint32_t flags;  /* third version */
};

struct npu_argument_properties {
	ZE_HEAD;
	char name[NPU_NAME];
	uint32_t type;
	uint32_t dimensions[NPU_DIMENSIONS];
	uint32_t network_precision, network_layout, device_precision, device_layout;
	float scale; /* second version */
	uint8_t zero_point;
	uint32_t rank; /* third version */
	char friendly_name[NPU_NAME];
	char names[NPU_NAMES][NPU_NAME];
	uint32_t names_count;
};

/* Chained to the above. */
struct npu_strides {
	ZE_HEAD;
	bool can_change;
};

struct npu_argument_metadata {
	ZE_HEAD;
	uint32_t type;
	char friendly_name[NPU_NAME];
	uint32_t data_type;
	uint64_t shape[NPU_SHAPE];
	uint32_t rank;
	char names[NPU_NAMES][NPU_NAME];
	uint32_t names_count;
	char name[NPU_NAME];
};

struct npu_tensor {
	ZE_HEAD;
	const void *memory;
};

struct npu_memory {
	uint64_t total, allocated;
};

struct npu_layer {
	char name[256], type[50];
	uint32_t status;
	uint64_t start_ns, duration_ns;
	uint32_t id;
	uint64_t fused_id, dpu_ns, shave_ns, dma_ns;
};

struct npu_profiling_properties {
	ZE_HEAD;
	uint32_t version;
};

/* For changing a command of a closed list: chained to the list's description. */
struct npu_argument_change {
	ZE_HEAD;
	uint64_t command;
	uint32_t index;
	const void *value;
};

struct npu_changes {
	ZE_HEAD;
	uint32_t flags;
};

/* Functions of the graph extension, in the order of its table, with the version that added them. */
#define GRAPH_FUNCTIONS(F)                                                                                           \
	/* 1.0 */                                                                                                    \
	F(pfnCreate, ze_context context, ze_device device, const struct npu_graph_description *description,          \
	  npu_graph *graph)                                                                                          \
	F(pfnDestroy, npu_graph graph)                                                                               \
	F(pfnGetProperties, npu_graph graph, struct npu_graph_properties *properties)                                \
	F(pfnGetArgumentProperties, npu_graph graph, uint32_t index, struct npu_argument_properties *properties)     \
	F(pfnSetArgumentValue, npu_graph graph, uint32_t index, const void *value)                                   \
	F(pfnAppendGraphInitialize, ze_list list, npu_graph graph, ze_event signal, uint32_t count, ze_event *waits) \
	F(pfnAppendGraphExecute, ze_list list, npu_graph graph, npu_slot profiling, ze_event signal, uint32_t count, \
	  ze_event *waits)                                                                                           \
	F(pfnGetNativeBinary, npu_graph graph, size_t *size, uint8_t *binary)                                        \
	F(pfnDeviceGetGraphProperties, ze_device device, struct npu_device_graph_properties *properties)             \
	/* 1.1 */                                                                                                    \
	F(pfnGraphGetArgumentMetadata, npu_graph graph, uint32_t index, struct npu_argument_metadata *metadata)      \
	F(pfnGetArgumentProperties2, npu_graph graph, uint32_t index, struct npu_argument_properties *properties)    \
	/* 1.2 */                                                                                                    \
	F(pfnGetArgumentProperties3, npu_graph graph, uint32_t index, struct npu_argument_properties *properties)    \
	/* 1.3 */                                                                                                    \
	F(pfnQueryNetworkCreate, ze_context context, ze_device device,                                               \
	  const struct npu_graph_description *description, npu_query *query)                                         \
	F(pfnQueryNetworkDestroy, npu_query query)                                                                   \
	F(pfnQueryNetworkGetSupportedLayers, npu_query query, size_t *size, char *names)                             \
	/* 1.4 */                                                                                                    \
	F(pfnBuildLogGetString, npu_graph graph, uint32_t *size, char *text)                                         \
	/* 1.5 */                                                                                                    \
	F(pfnCreate2, ze_context context, ze_device device, const struct npu_graph_description *description,         \
	  npu_graph *graph)                                                                                          \
	F(pfnQueryNetworkCreate2, ze_context context, ze_device device,                                              \
	  const struct npu_graph_description *description, npu_query *query)                                         \
	F(pfnQueryContextMemory, ze_context context, uint32_t type, struct npu_memory *memory)                       \
	/* 1.6 */                                                                                                    \
	F(pfnDeviceGetGraphProperties2, ze_device device, struct npu_device_graph_properties *properties)            \
	/* 1.7 */                                                                                                    \
	F(pfnGetNativeBinary2, npu_graph graph, size_t *size, const uint8_t **binary)                                \
	/* 1.8 */                                                                                                    \
	F(pfnGetProperties2, npu_graph graph, struct npu_graph_properties *properties)                               \
	F(pfnGraphInitialize, npu_graph graph)                                                                       \
	/* 1.11 */                                                                                                   \
	F(pfnCompilerGetSupportedOptions, ze_device device, uint32_t type, size_t *size, char *options)              \
	F(pfnCompilerIsOptionSupported, ze_device device, uint32_t type, const char *option, const char *value)      \
	/* 1.12 */                                                                                                   \
	F(pfnCreate3, ze_context context, ze_device device, const struct npu_graph_description *description,         \
	  npu_graph *graph, void **log)                                                                              \
	F(pfnGetProperties3, npu_graph graph, struct npu_graph_properties *properties)                               \
	F(pfnBuildLogGetString2, void *log, uint32_t *size, char *text)                                              \
	F(pfnBuildLogDestroy, void *log)                                                                             \
	/* 1.15 */                                                                                                   \
	F(pfnSetArgumentValue2, npu_graph graph, uint32_t index, const struct npu_tensor *value)                     \
	/* 1.16 */                                                                                                   \
	F(pfnEvict, npu_graph graph)

#define PROFILING_FUNCTIONS(F)                                                                                       \
	F(pfnProfilingPoolCreate, npu_graph graph, uint32_t slots, npu_pool *pool)                                   \
	F(pfnProfilingPoolDestroy, npu_pool pool)                                                                    \
	F(pfnProfilingQueryCreate, npu_pool pool, uint32_t index, npu_slot *query)                                   \
	F(pfnProfilingQueryDestroy, npu_slot query)                                                                  \
	F(pfnProfilingQueryGetData, npu_slot query, uint32_t type, uint32_t *size, uint8_t *data)                    \
	F(pfnDeviceGetProfilingDataProperties, ze_device device, struct npu_profiling_properties *properties)        \
	F(pfnProfilingLogGetString, npu_slot query, uint32_t *size, char *text)

#define QUEUE_FUNCTIONS(F) F(pfnSetWorkloadType, ze_queue queue, uint32_t type)

#define CONTEXT_FUNCTIONS(F)                                                                                         \
	F(pfnSetProperties, ze_context context, const void *properties)                                              \
	F(pfnReleaseMemory, ze_context context)

/* The loader's experimental functions that change a closed list. */
#define MUTABLE_FUNCTIONS(F)                                                                                         \
	F(zeCommandListGetNextCommandIdExp, ze_list list, const void *description, uint64_t *number)                 \
	F(zeCommandListUpdateMutableCommandsExp, ze_list list, const struct npu_changes *changes)

#endif
