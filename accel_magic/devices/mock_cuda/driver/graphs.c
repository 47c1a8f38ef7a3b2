/* Graphs: work recorded while a stream is captured, repeated each time the graph is launched. */
#include "mock_cuda.h"

#include <stdlib.h>
#include <string.h>

enum { NOT_CAPTURING, CAPTURING };

struct node {
	CUresult (*act)(const struct node *node, CUstream stream);
	struct request request;
	uint64_t to, from, size, unit;
	void (*function)(void *);
	char *data; /* a kernel's parameters; or the argument of `function`, owned by the program */
};

/* A user object: kept by graphs, destroyed when its last owner releases it. */
struct object {
	void (*destroy)(void *);
	void *data;
	unsigned int owners;
};

struct held {
	struct held *next;
	struct object *object;
	unsigned int count;
};

struct graph {
	struct node *nodes;
	struct held *held;
	size_t count, room;
	uint64_t id;
};

static CUresult add_to(struct graph *graph, struct node node)
{
	if (graph->count == graph->room) {
		struct node *larger = realloc(graph->nodes, (graph->room * 2 + 16) * sizeof(node));

		if (!larger)
			return OUT_OF_MEMORY;
		graph->nodes = larger;
		graph->room = graph->room * 2 + 16;
	}
	graph->nodes[graph->count++] = node;
	return SUCCESS;
}

static CUresult add(CUstream stream, struct node node)
{
	return add_to(stream->capture, node);
}

int is_captured(CUstream stream)
{
	return (uintptr_t)stream > 2 && stream->capture;
}

static CUresult launch_again(const struct node *node, CUstream stream)
{
	struct request request = node->request;

	request.a[1] = stream_number(stream);
	return ask(&request, node->data, NULL, NULL);
}

static CUresult add_launch(struct graph *graph, const struct request *request, const void *data)
{
	struct node node = {.act = launch_again, .request = *request, .data = malloc(request->size + 1)};
	CUresult result;

	if (!node.data)
		return OUT_OF_MEMORY;
	memcpy(node.data, data, request->size);
	result = add_to(graph, node);
	if (result)
		free(node.data);
	return result;
}

CUresult capture_launch(CUstream stream, const struct request *request, const void *data)
{
	return add_launch(stream->capture, request, data);
}

static CUresult copy_again(const struct node *node, CUstream stream)
{
	return copy(node->to, node->from, node->size, stream);
}

CUresult capture_copy(CUstream stream, uint64_t to, uint64_t from, size_t size)
{
	return add(stream, (struct node){.act = copy_again, .to = to, .from = from, .size = size});
}

static CUresult fill_again(const struct node *node, CUstream stream)
{
	return fill(node->to, node->from, node->unit, node->size, stream);
}

CUresult capture_fill(CUstream stream, uint64_t to, uint32_t value, size_t unit, size_t count)
{
	return add(stream, (struct node){
				   .act = fill_again, .to = to, .from = value, .size = count, .unit = unit});
}

static CUresult call_again(const struct node *node, CUstream stream)
{
	CUresult result = wait_for(stream_number(stream));

	if (!result)
		node->function(node->data);
	return result;
}

CUresult capture_call(CUstream stream, void (*function)(void *), void *data)
{
	return add(stream, (struct node){.act = call_again, .function = function, .data = data});
}

API CUresult cuUserObjectCreate(struct object **made, void *data, void (*destroy)(void *), unsigned int owners,
				unsigned int flags)
{
	(void)flags;
	*made = malloc(sizeof(**made));
	if (!*made)
		return OUT_OF_MEMORY;
	**made = (struct object){destroy, data, owners};
	return SUCCESS;
}

API CUresult cuUserObjectRetain(struct object *object, unsigned int count)
{
	__atomic_add_fetch(&object->owners, count, __ATOMIC_RELAXED);
	return SUCCESS;
}

API CUresult cuUserObjectRelease(struct object *object, unsigned int count)
{
	if (__atomic_sub_fetch(&object->owners, count, __ATOMIC_ACQ_REL))
		return SUCCESS;
	object->destroy(object->data);
	free(object);
	return SUCCESS;
}

API CUresult cuGraphRetainUserObject(CUgraph graph, struct object *object, unsigned int count, unsigned int flags)
{
	enum { MOVE = 1 };
	struct held *held = malloc(sizeof(*held));

	if (!held)
		return OUT_OF_MEMORY;
	*held = (struct held){graph->held, object, count};
	graph->held = held;
	return flags & MOVE ? SUCCESS : cuUserObjectRetain(object, count);
}

API CUresult cuGraphReleaseUserObject(CUgraph graph, struct object *object, unsigned int count)
{
	struct held **at = &graph->held, *found;

	while (*at && ((*at)->object != object || (*at)->count < count))
		at = &(*at)->next;
	if (!*at)
		return INVALID_VALUE;
	found = *at;
	found->count -= count;
	if (!found->count) {
		*at = found->next;
		free(found);
	}
	return cuUserObjectRelease(object, count);
}

static void release(struct graph *graph)
{
	while (graph->held)
		cuGraphReleaseUserObject(graph, graph->held->object, graph->held->count);
	for (size_t i = 0; i < graph->count; i++)
		if (graph->nodes[i].act == launch_again)
			free(graph->nodes[i].data);
	free(graph->nodes);
	free(graph);
}

/* Copy a graph for launching; the original may change or be destroyed. */
static CUresult duplicate(struct graph **made, const struct graph *graph)
{
	struct graph *copy = calloc(1, sizeof(*copy));
	CUresult result = copy ? SUCCESS : OUT_OF_MEMORY;

	for (size_t i = 0; !result && i < graph->count; i++) {
		const struct node *node = &graph->nodes[i];

		result = node->act == launch_again ? add_launch(copy, &node->request, node->data) :
						     add_to(copy, *node);
	}
	for (struct held *held = graph->held; !result && held; held = held->next)
		result = cuGraphRetainUserObject(copy, held->object, held->count, 0);
	if (result && copy)
		release(copy);
	else
		*made = copy;
	return result;
}

API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode)
{
	static uint64_t graphs;
	CUresult result = usable();

	(void)mode;
	if (result || (uintptr_t)stream <= 2)
		return result ? result : CAPTURE_UNSUPPORTED;
	if (stream->capture)
		return ILLEGAL_STATE;
	stream->capture = calloc(1, sizeof(*stream->capture));
	if (!stream->capture)
		return OUT_OF_MEMORY;
	stream->capture->id = __atomic_add_fetch(&graphs, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUresult result = usable();

	if (result || !is_captured(stream))
		return result ? result : ILLEGAL_STATE;
	*graph = stream->capture;
	stream->capture = NULL;
	return SUCCESS;
}

API CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
	*status = is_captured(stream) ? CAPTURING : NOT_CAPTURING;
	return usable();
}

API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph, const void **nodes,
				       size_t *count)
{
	struct graph *now = is_captured(stream) ? stream->capture : NULL;

	*status = now ? CAPTURING : NOT_CAPTURING;
	if (id)
		*id = now ? now->id : 0;
	if (graph)
		*graph = now;
	if (nodes)
		*nodes = NULL;
	if (count)
		*count = 0;
	return usable();
}

API CUresult cuStreamGetCaptureInfo_v3(CUstream stream, int *status, uint64_t *id, CUgraph *graph, const void **nodes,
				       const void **edges, size_t *count)
{
	if (edges)
		*edges = NULL;
	return cuStreamGetCaptureInfo_v2(stream, status, id, graph, nodes, count);
}

API CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph, uint64_t flags)
{
	CUresult result = usable();

	(void)flags;
	if (result || !graph)
		return result ? result : INVALID_VALUE;
	return duplicate(made, graph);
}

struct instantiation {
	uint64_t flags;
	CUstream upload;
	void *node;
	int result;
};

API CUresult cuGraphInstantiateWithParams(CUgraphExec *made, CUgraph graph, struct instantiation *how)
{
	how->result = 0;
	return cuGraphInstantiateWithFlags(made, graph, how->flags);
}

API CUresult cuGraphUpload(CUgraphExec made, CUstream stream)
{
	(void)stream;
	return made ? usable() : INVALID_VALUE;
}

API CUresult cuGraphLaunch(CUgraphExec made, CUstream stream)
{
	CUresult result = usable();

	if (!result && !made)
		return INVALID_VALUE;
	for (size_t i = 0; !result && i < made->count; i++)
		result = made->nodes[i].act(&made->nodes[i], stream);
	return result;
}

API CUresult cuGraphGetNodes(CUgraph graph, void **nodes, size_t *count)
{
	for (size_t i = 0; nodes && i < *count && i < graph->count; i++)
		nodes[i] = &graph->nodes[i];
	*count = graph->count;
	return usable();
}

API CUresult cuGraphExecDestroy(CUgraphExec made)
{
	if (!made)
		return INVALID_VALUE;
	release(made);
	return SUCCESS;
}

API CUresult cuGraphDestroy(CUgraph graph)
{
	return cuGraphExecDestroy(graph);
}
