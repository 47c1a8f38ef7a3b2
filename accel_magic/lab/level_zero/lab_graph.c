/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: compiled models. The device's host compiles and executes them with OpenVINO, so a blob holds the model as the
 * program gave it: "compiling" writes it to a buffer of the NPU and submits a job that makes the device load it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab_driver.h"

#define COMPILER_MAJOR 7
#define COMPILER_MINOR 30
#define BLOB_MAGIC 0x31424e4d41ull /* "AMNB1" */
#define ANSWER_SIZE (1 << 20)

/* Options that the compiler accepts; they have no effect. NO_WEIGHTS_COPY is not among them, so models are complete. */
#define OPTIONS                                                                                                      \
	"NPU_PLATFORM DEVICE_ID LOG_LEVEL PERFORMANCE_HINT PERF_COUNT INFERENCE_PRECISION_HINT EXECUTION_MODE_HINT " \
	"COMPILATION_NUM_THREADS NPU_STEPPING NPU_TILES NPU_MAX_TILES NPU_DMA_ENGINES NPU_TURBO "                    \
	"NPU_COMPILATION_MODE NPU_COMPILATION_MODE_PARAMS NPU_BACKEND_COMPILATION_PARAMS "                           \
	"NPU_COMPILER_DYNAMIC_QUANTIZATION NPU_QDQ_OPTIMIZATION NPU_BATCH_MODE CACHE_MODE"

/* A blob: this, the build flags, the serialized model. */
struct blob {
	uint64_t magic, flags_size, model_size;
};

struct npu_query {
	char *names;
	size_t size;
};

static __thread char build_log[4096];


/* NPU memory of the driver's own. */

static void *take(struct ze_context *context, size_t size)
{
	struct ze_flags_description description = { .kind = ZE_KIND_HOST_MEMORY };
	void *memory;

	return lab_zeMemAllocHost(context, &description, size, 0, &memory) ? NULL : memory;
}

static void give(struct ze_context *context, void *memory)
{
	if (memory)
		lab_zeMemFree(context, memory);
}

/* Have the device answer a question about a blob. The content of the answer, which ends with a zero byte, must be freed
 * even after an error.
 */
static ze_result ask(struct ze_context *context, enum job_kind kind, uint32_t graph, const void *blob, size_t blob_size,
		     char **content, size_t *size)
{
	struct job_answer *answer = take(context, ANSWER_SIZE);
	struct job_span spans[2];
	ze_result result = answer ? span_of(context, blob, blob_size, &spans[0]) : ZE_OUT_OF_DEVICE_MEMORY;

	*content = NULL;
	if (!result)
		result = span_of(context, answer, ANSWER_SIZE, &spans[1]);
	if (!result)
		result = run_command(context, kind, graph, 2, spans);
	while (!result && answer->status == JOB_NOT_READY)
		result = run_command(context, JOB_AWAIT, graph, 1, &spans[1]);
	if (!result && answer->size > ANSWER_SIZE - sizeof(*answer))
		result = ZE_UNKNOWN;
	if (!result) {
		*size = answer->size;
		*content = calloc(1, *size + 1);
		result = *content ? answer->status == JOB_FAILED ? ZE_BUILD_FAILURE : ZE_SUCCESS : ZE_OUT_OF_HOST_MEMORY;
	}
	if (*content)
		memcpy(*content, answer->content, *size);
	give(context, answer);
	return result;
}

static uint32_t next_number(struct ze_context *context)
{
	uint32_t number;

	pthread_mutex_lock(&context->lock);
	number = ++context->graphs;
	pthread_mutex_unlock(&context->lock);
	return number;
}

/* Creating graphs */

static bool is_blob(const struct npu_graph_description *description)
{
	struct blob blob;

	if (description->size < sizeof(blob))
		return false;
	memcpy(&blob, description->input, sizeof(blob));
	return blob.magic == BLOB_MAGIC && blob.flags_size <= description->size - sizeof(blob) &&
	       blob.model_size <= description->size - sizeof(blob) - blob.flags_size;
}

/* Write a blob to NPU memory. Programs may pad a blob that they import. */
static ze_result make_blob(struct ze_context *context, const struct npu_graph_description *description, const char *flags,
			   void **made, size_t *size)
{
	struct blob blob = { BLOB_MAGIC, strlen(flags), description->size };

	if (description->format == NPU_FORMAT_BLOB && !is_blob(description))
		return ZE_INVALID_NATIVE_BINARY;
	*size = description->format == NPU_FORMAT_BLOB ? description->size :
							 sizeof(blob) + blob.flags_size + description->size;
	*made = take(context, *size);
	if (!*made)
		return ZE_OUT_OF_DEVICE_MEMORY;
	if (description->format == NPU_FORMAT_BLOB) {
		memcpy(*made, description->input, description->size);
	} else {
		memcpy(*made, &blob, sizeof(blob));
		memcpy((char *)*made + sizeof(blob), flags, blob.flags_size);
		memcpy((char *)*made + sizeof(blob) + blob.flags_size, description->input, description->size);
	}
	return ZE_SUCCESS;
}

static ze_result check_description(struct ze_context *context, const struct npu_graph_description *description,
				   const void *target)
{
	if (!context)
		return ZE_INVALID_NULL_HANDLE;
	if (!description || !description->input || !target)
		return ZE_INVALID_NULL_POINTER;
	if (description->format != NPU_FORMAT_BLOB && description->format != NPU_FORMAT_MODEL)
		return ZE_UNSUPPORTED_FEATURE;
	return description->size ? ZE_SUCCESS : ZE_INVALID_SIZE;
}

static void drop(struct npu_graph *graph)
{
	give(graph->context, graph->blob);
	free(graph->described);
	free(graph->argument);
	free(graph);
}

static ze_result create(struct ze_context *context, const struct npu_graph_description *description, bool profiled,
			npu_graph *made)
{
	ze_result result = check_description(context, description, made);
	struct npu_graph *graph;
	const char *flags;
	size_t size = 0;

	build_log[0] = 0;
	if (result)
		return result;
	graph = calloc(1, sizeof(*graph));
	if (!graph)
		return ZE_OUT_OF_HOST_MEMORY;
	flags = description->build_flags ? description->build_flags : "";
	graph->context = context;
	graph->id = next_number(context);
	graph->profiled = profiled || strstr(flags, "PERF_COUNT=\"YES\"");
	result = make_blob(context, description, flags, &graph->blob, &graph->blob_size);
	if (!result)
		result = ask(context, JOB_LOAD, graph->id, graph->blob, graph->blob_size, &graph->described, &size);
	if (result == ZE_BUILD_FAILURE)
		snprintf(build_log, sizeof(build_log), "%s", graph->described);
	if (!result && !read_graph(graph, size))
		result = ZE_UNKNOWN;
	if (result)
		drop(graph);
	else
		*made = graph;
	return result;
}

ze_result lab_pfnCreate(ze_context context, ze_device device, const struct npu_graph_description *description,
			npu_graph *graph)
{
	(void)device; /* there is one */
	return create(context, description, false, graph);
}

ze_result lab_pfnCreate2(ze_context context, ze_device device, const struct npu_graph_description *description,
			 npu_graph *graph)
{
	(void)device;
	return create(context, description, description && description->flags & NPU_ENABLE_PROFILING, graph);
}

ze_result lab_pfnCreate3(ze_context context, ze_device device, const struct npu_graph_description *description,
			 npu_graph *graph, void **log)
{
	if (log)
		*log = build_log;
	return lab_pfnCreate2(context, device, description, graph);
}

ze_result lab_pfnDestroy(npu_graph graph)
{
	if (!graph)
		return ZE_INVALID_NULL_HANDLE;
	run_command(graph->context, JOB_UNLOAD, graph->id, 0, NULL);
	drop(graph);
	return ZE_SUCCESS;
}

/* Logs are of the calling thread: a graph that could not be created has none. */
static ze_result tell_log(uint32_t *size, char *text)
{
	if (!size)
		return ZE_INVALID_NULL_POINTER;
	if (text)
		snprintf(text, *size, "%s", build_log);
	*size = (uint32_t)strlen(build_log) + 1;
	return ZE_SUCCESS;
}

ze_result lab_pfnBuildLogGetString(npu_graph graph, uint32_t *size, char *text)
{
	(void)graph;
	return tell_log(size, text);
}

ze_result lab_pfnBuildLogGetString2(void *log, uint32_t *size, char *text)
{
	(void)log;
	return tell_log(size, text);
}

ze_result lab_pfnBuildLogDestroy(void *log)
{
	(void)log;
	return ZE_SUCCESS;
}

/* What programs ask about graphs and the compiler */

static ze_result tell_graph(npu_graph graph, struct npu_graph_properties *properties, int version)
{
	if (!graph)
		return ZE_INVALID_NULL_HANDLE;
	if (!properties)
		return ZE_INVALID_NULL_POINTER;
	properties->arguments = graph->arguments;
	if (version >= 2)
		properties->stages = NPU_STAGE_INITIALIZE;
	if (version >= 3)
		properties->flags = NPU_COMPILED | (graph->profiled ? NPU_PROFILED : 0);
	return ZE_SUCCESS;
}

ze_result lab_pfnGetProperties(npu_graph graph, struct npu_graph_properties *properties)
{
	return tell_graph(graph, properties, 1);
}

ze_result lab_pfnGetProperties2(npu_graph graph, struct npu_graph_properties *properties)
{
	return tell_graph(graph, properties, 2);
}

ze_result lab_pfnGetProperties3(npu_graph graph, struct npu_graph_properties *properties)
{
	return tell_graph(graph, properties, 3);
}

static ze_result tell_device(ze_device device, struct npu_device_graph_properties *properties, int version)
{
	if (!device)
		return ZE_INVALID_NULL_HANDLE;
	if (!properties)
		return ZE_INVALID_NULL_POINTER;
	properties->version = GRAPH_VERSION;
	properties->compiler_major = COMPILER_MAJOR;
	properties->compiler_minor = COMPILER_MINOR;
	properties->formats = NPU_FORMAT_BLOB | NPU_FORMAT_MODEL;
	properties->opset = OPSET;
	for (int i = 0; version >= 2 && i < 3; i++)
		properties->elf[i] = properties->runtime[i] = i == 0; /* 1.0.0 */
	return ZE_SUCCESS;
}

ze_result lab_pfnDeviceGetGraphProperties(ze_device device, struct npu_device_graph_properties *properties)
{
	return tell_device(device, properties, 1);
}

ze_result lab_pfnDeviceGetGraphProperties2(ze_device device, struct npu_device_graph_properties *properties)
{
	return tell_device(device, properties, 2);
}

ze_result lab_pfnGetNativeBinary2(npu_graph graph, size_t *size, const uint8_t **binary)
{
	if (!graph)
		return ZE_INVALID_NULL_HANDLE;
	if (!size || !binary)
		return ZE_INVALID_NULL_POINTER;
	*size = graph->blob_size;
	*binary = graph->blob;
	return ZE_SUCCESS;
}

ze_result lab_pfnGetNativeBinary(npu_graph graph, size_t *size, uint8_t *binary)
{
	if (!graph)
		return ZE_INVALID_NULL_HANDLE;
	if (!size)
		return ZE_INVALID_NULL_POINTER;
	if (binary)
		memcpy(binary, graph->blob, *size < graph->blob_size ? *size : graph->blob_size);
	*size = graph->blob_size;
	return ZE_SUCCESS;
}

ze_result lab_pfnQueryContextMemory(ze_context context, uint32_t type, struct npu_memory *memory)
{
	(void)type;
	if (!context)
		return ZE_INVALID_NULL_HANDLE;
	if (!memory)
		return ZE_INVALID_NULL_POINTER;
	memory->total = memory_size();
	memory->allocated = memory_used(context);
	return ZE_SUCCESS;
}

ze_result lab_pfnCompilerGetSupportedOptions(ze_device device, uint32_t type, size_t *size, char *options)
{
	const char *known = type == NPU_OPTIONS_COMPILER ? OPTIONS : "";

	if (!device)
		return ZE_INVALID_NULL_HANDLE;
	if (!size)
		return ZE_INVALID_NULL_POINTER;
	if (options)
		snprintf(options, *size, "%s", known);
	*size = strlen(known) + 1;
	return ZE_SUCCESS;
}

ze_result lab_pfnCompilerIsOptionSupported(ze_device device, uint32_t type, const char *option, const char *value)
{
	static const char options[] = OPTIONS;
	size_t length;

	(void)value; /* NULL: any */
	if (!device)
		return ZE_INVALID_NULL_HANDLE;
	if (!option)
		return ZE_INVALID_NULL_POINTER;
	length = strlen(option);
	for (const char *at = options; type == NPU_OPTIONS_COMPILER && length && (at = strstr(at, option)); at += length)
		if ((at == options || at[-1] == ' ') && (!at[length] || at[length] == ' '))
			return ZE_SUCCESS;
	return ZE_UNSUPPORTED_FEATURE;
}

/* Executing */

/* Loading is all the initialization that a graph needs. */
ze_result lab_pfnGraphInitialize(npu_graph graph)
{
	return graph ? ZE_SUCCESS : ZE_INVALID_NULL_HANDLE;
}

ze_result lab_pfnAppendGraphInitialize(ze_list list, npu_graph graph, ze_event signal, uint32_t count, ze_event *waits)
{
	if (!graph)
		return ZE_INVALID_NULL_HANDLE;
	return lab_zeCommandListAppendBarrier(list, signal, count, waits);
}

ze_result lab_pfnAppendGraphExecute(ze_list list, npu_graph graph, npu_slot profiling, ze_event signal, uint32_t count,
				    ze_event *waits)
{
	struct job_span spans[MOST_BUFFERS];
	uint32_t used;
	ze_result result = ZE_SUCCESS;

	if (!list || !graph)
		return ZE_INVALID_NULL_HANDLE;
	snprintf(list->graph, sizeof(list->graph), "%s", graph->described + sizeof(struct job_graph));
	used = graph->arguments;
	if (used >= MOST_BUFFERS)
		return ZE_UNSUPPORTED_SIZE;
	for (uint32_t i = 0; i < used; i++) {
		if (!graph->argument[i].address)
			return ZE_INVALID_ARGUMENT; /* not set */
		spans[i] = (struct job_span){ graph->argument[i].address, graph->argument[i].told->bytes };
	}
	if (profiling)
		result = span_of(graph->context, profiling, SLOT_SIZE, &spans[used++]);
	return result ? result : append_between(list, JOB_EXECUTE, graph->id, used, spans, signal, count, waits);
}

/* The graph stays where it is: the device's memory is the host's. */
ze_result lab_pfnEvict(npu_graph graph)
{
	return graph ? ZE_SUCCESS : ZE_INVALID_NULL_HANDLE;
}

/* Which layers of a model the device can execute */

ze_result lab_pfnQueryNetworkCreate2(ze_context context, ze_device device, const struct npu_graph_description *description,
				     npu_query *query)
{
	ze_result result = check_description(context, description, query);
	void *blob = NULL;
	size_t size;

	(void)device;
	if (result)
		return result;
	*query = calloc(1, sizeof(**query));
	if (!*query)
		return ZE_OUT_OF_HOST_MEMORY;
	result = make_blob(context, description, description->build_flags ? description->build_flags : "", &blob, &size);
	if (!result)
		result = ask(context, JOB_QUERY, next_number(context), blob, size, &(*query)->names, &(*query)->size);
	if (result == ZE_BUILD_FAILURE)
		snprintf(build_log, sizeof(build_log), "%s", (*query)->names);
	give(context, blob);
	if (result)
		lab_pfnQueryNetworkDestroy(*query);
	return result;
}

ze_result lab_pfnQueryNetworkCreate(ze_context context, ze_device device, const struct npu_graph_description *description,
				    npu_query *query)
{
	return lab_pfnQueryNetworkCreate2(context, device, description, query);
}

ze_result lab_pfnQueryNetworkGetSupportedLayers(npu_query query, size_t *size, char *names)
{
	if (!query)
		return ZE_INVALID_NULL_HANDLE;
	if (!size)
		return ZE_INVALID_NULL_POINTER;
	if (names)
		memcpy(names, query->names, *size < query->size ? *size : query->size);
	*size = query->size;
	return ZE_SUCCESS;
}

ze_result lab_pfnQueryNetworkDestroy(npu_query query)
{
	if (!query)
		return ZE_INVALID_NULL_HANDLE;
	free(query->names);
	free(query);
	return ZE_SUCCESS;
}

/* Queues and contexts: hints without effect here */

ze_result lab_pfnSetWorkloadType(ze_queue queue, uint32_t type)
{
	(void)type;
	return queue ? ZE_SUCCESS : ZE_INVALID_NULL_HANDLE;
}

ze_result lab_pfnSetProperties(ze_context context, const void *properties)
{
	(void)properties;
	return context ? ZE_SUCCESS : ZE_INVALID_NULL_HANDLE;
}

ze_result lab_pfnReleaseMemory(ze_context context)
{
	return context ? ZE_SUCCESS : ZE_INVALID_NULL_HANDLE;
}
