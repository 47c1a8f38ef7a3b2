/* SPDX-License-Identifier: Apache-2.0 */
/* What the device tells of a graph, and how programs ask for it: its arguments, with types, shapes and names. */
#include <stdlib.h>
#include <string.h>

#include "lab_driver.h"

_Static_assert(sizeof(((struct job_argument *)NULL)->shape) == sizeof(uint64_t) * NPU_SHAPE, "the metadata's shape");

/* The length of a text within `size` bytes, with its zero byte; 0 if it has none. */
static size_t text_length(const char *text, size_t size)
{
	const char *end = memchr(text, 0, size);

	return end ? (size_t)(end - text) + 1 : 0;
}

/* Take the next text off an argument's texts. */
static bool take_text(const char **text, size_t *left, const char **taken)
{
	size_t length = text_length(*text, *left);

	*taken = *text;
	*text += length;
	*left -= length;
	return length;
}

static bool read_argument(struct argument *argument, const char *at, size_t left)
{
	const char *text = at + sizeof(struct job_argument), *name;

	argument->told = (const struct job_argument *)at;
	left = argument->told->text_size;
	if (argument->told->rank > NPU_SHAPE || !take_text(&text, &left, &argument->name) ||
	    !take_text(&text, &left, &argument->friendly_name))
		return false;
	argument->names = text;
	for (uint32_t i = 0; i < argument->told->names; i++)
		if (!take_text(&text, &left, &name))
			return false;
	return true;
}

/* Read the answer to LOAD in graph->described; false if it is damaged. */
bool read_graph(struct npu_graph *graph, size_t size)
{
	const struct job_graph *head = (const struct job_graph *)graph->described;
	size_t at = sizeof(*head);

	if (size < at || head->name_size > size - at || !text_length(graph->described + at, head->name_size) ||
	    head->arguments > size / sizeof(struct job_argument))
		return false;
	at += head->name_size;
	graph->argument = calloc(head->arguments ? head->arguments : 1, sizeof(*graph->argument));
	if (!graph->argument)
		return false;
	graph->arguments = head->arguments;
	for (uint32_t i = 0; i < graph->arguments; i++) {
		const struct job_argument *told = (const struct job_argument *)(graph->described + at);

		if (size - at < sizeof(*told) || told->text_size > size - at - sizeof(*told) ||
		    !read_argument(graph->argument + i, graph->described + at, size - at))
			return false;
		at += sizeof(*told) + told->text_size;
	}
	return true;
}

static void copy_text(char *target, const char *text)
{
	size_t length = strnlen(text, NPU_NAME - 1);

	memset(target, 0, NPU_NAME);
	memcpy(target, text, length);
}

static uint32_t copy_names(char (*target)[NPU_NAME], const struct argument *argument)
{
	uint32_t count = argument->told->names < NPU_NAMES ? argument->told->names : NPU_NAMES;
	const char *name = argument->names;

	for (uint32_t i = 0; i < count; i++, name += strlen(name) + 1)
		copy_text(target[i], name);
	return count;
}

static ze_result find(npu_graph graph, uint32_t index, const void *target, const struct argument **argument)
{
	if (!graph)
		return ZE_INVALID_NULL_HANDLE;
	if (!target)
		return ZE_INVALID_NULL_POINTER;
	if (index >= graph->arguments)
		return ZE_INVALID_ARGUMENT;
	*argument = graph->argument + index;
	return ZE_SUCCESS;
}

/* Versions of a structure have more fields; only those of the caller's version may be written. */
static ze_result tell_argument(npu_graph graph, uint32_t index, struct npu_argument_properties *properties, int version)
{
	const struct argument *argument;
	const struct job_argument *told;
	ze_result result = find(graph, index, properties, &argument);

	if (result)
		return result;
	told = argument->told;
	copy_text(properties->name, argument->name);
	properties->type = told->type;
	for (uint32_t i = 0; i < NPU_DIMENSIONS; i++)
		properties->dimensions[i] = i < told->rank ? (uint32_t)told->shape[i] : 1;
	properties->network_precision = properties->device_precision = told->precision;
	properties->network_layout = properties->device_layout = 0; /* any */
	for (const struct npu_strides *next = properties->next; next; next = next->next)
		if (next->kind == NPU_KIND_STRIDES)
			((struct npu_strides *)next)->can_change = false;
	if (version >= 2) {
		properties->scale = 1;
		properties->zero_point = 0;
	}
	if (version >= 3) {
		properties->rank = told->rank;
		copy_text(properties->friendly_name, argument->friendly_name);
		properties->names_count = copy_names(properties->names, argument);
	}
	return ZE_SUCCESS;
}

ze_result lab_pfnGetArgumentProperties(npu_graph graph, uint32_t index, struct npu_argument_properties *properties)
{
	return tell_argument(graph, index, properties, 1);
}

ze_result lab_pfnGetArgumentProperties2(npu_graph graph, uint32_t index, struct npu_argument_properties *properties)
{
	return tell_argument(graph, index, properties, 2);
}

ze_result lab_pfnGetArgumentProperties3(npu_graph graph, uint32_t index, struct npu_argument_properties *properties)
{
	return tell_argument(graph, index, properties, 3);
}

ze_result lab_pfnGraphGetArgumentMetadata(npu_graph graph, uint32_t index, struct npu_argument_metadata *metadata)
{
	const struct argument *argument;
	ze_result result = find(graph, index, metadata, &argument);

	if (result)
		return result;
	metadata->type = argument->told->type;
	copy_text(metadata->friendly_name, argument->friendly_name);
	metadata->data_type = argument->told->data_type;
	memcpy(metadata->shape, argument->told->shape, sizeof(metadata->shape));
	metadata->rank = argument->told->rank;
	metadata->names_count = copy_names(metadata->names, argument);
	copy_text(metadata->name, argument->name);
	return ZE_SUCCESS;
}

static ze_result set_value(npu_graph graph, uint32_t index, const void *value)
{
	const struct argument *argument;
	struct job_span span;
	ze_result result = find(graph, index, value, &argument);

	if (!result)
		result = span_of(graph->context, value, argument->told->bytes, &span);
	if (!result)
		graph->argument[index].address = span.address;
	return result;
}

ze_result lab_pfnSetArgumentValue(npu_graph graph, uint32_t index, const void *value)
{
	return set_value(graph, index, value);
}

ze_result lab_pfnSetArgumentValue2(npu_graph graph, uint32_t index, const struct npu_tensor *value)
{
	if (!value)
		return ZE_INVALID_NULL_POINTER;
	if (value->kind != NPU_KIND_TENSOR || value->next) /* strides */
		return ZE_UNSUPPORTED_FEATURE;
	return set_value(graph, index, value->memory);
}
