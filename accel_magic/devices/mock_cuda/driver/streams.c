/* Streams and events. The server determines their order: it runs kernels one after the other. */
#include "mock_cuda.h"

#include <stdlib.h>

struct event {
	uint64_t id;
	unsigned int flags;
	int recorded;
};

enum { ASK, UNTIL_DONE };

/* Null and the two default stream handles of cuda.h are all one stream here. */
static int is_default(CUstream stream)
{
	return (uintptr_t)stream <= 2;
}

uint64_t stream_number(CUstream stream)
{
	return is_default(stream) ? 0 : stream->id;
}

CUresult wait_for(uint64_t stream)
{
	return tell(WAIT, stream, UNTIL_DONE);
}

API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	struct request request = {.operation = STREAM, .a = {flags}};
	struct reply reply;
	CUresult result = usable();

	if (!result)
		result = ask(&request, NULL, &reply, NULL);
	if (result)
		return result;
	*stream = malloc(sizeof(**stream));
	if (!*stream)
		return OUT_OF_MEMORY;
	**stream = (struct stream){.id = reply.a[0], .flags = flags, .priority = priority};
	return SUCCESS;
}

API CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	return cuStreamCreateWithPriority(stream, flags, 0);
}

API CUresult cuStreamDestroy_v2(CUstream stream)
{
	CUresult result = usable();

	if (result || is_default(stream))
		return result ? result : INVALID_HANDLE;
	if (stream->capture)
		return CAPTURE_UNSUPPORTED;
	result = tell(CLOSE, stream->id, 0);
	free(stream);
	return result;
}

API CUresult cuStreamSynchronize(CUstream stream)
{
	CUresult result = usable();

	if (!result && is_captured(stream))
		return CAPTURE_UNSUPPORTED;
	return result ? result : wait_for(stream_number(stream));
}

API CUresult cuStreamQuery(CUstream stream)
{
	CUresult result = usable();

	return result ? result : tell(WAIT, stream_number(stream), ASK);
}

API CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
	*priority = is_default(stream) ? 0 : stream->priority;
	return usable();
}

API CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
{
	*flags = is_default(stream) ? 0 : stream->flags;
	return usable();
}

API CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
	*id = is_default(stream) ? 1 : stream->id + 2;
	return usable();
}

API CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	(void)stream;
	*context = current_context();
	return usable();
}

API CUresult cuStreamGetDevice(CUstream stream, CUdevice *device)
{
	(void)stream;
	*device = 0;
	return usable();
}

API CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	static __thread int current;
	int before = current;

	current = *mode;
	*mode = before;
	return SUCCESS;
}

API CUresult cuStreamAddCallback(CUstream stream, void (*function)(CUstream, CUresult, void *), void *data,
				 unsigned int flags)
{
	CUresult result = usable();

	(void)flags;
	if (!result && is_captured(stream))
		return CAPTURE_UNSUPPORTED;
	if (!result)
		function(stream, wait_for(stream_number(stream)), data);
	return result;
}

API CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data)
{
	CUresult result = usable();

	if (!result && is_captured(stream))
		return capture_call(stream, function, data);
	if (!result)
		result = wait_for(stream_number(stream));
	if (!result)
		function(data);
	return result;
}

API CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	static uint64_t events;
	CUresult result = usable();

	if (result)
		return result;
	*event = calloc(1, sizeof(**event));
	if (!*event)
		return OUT_OF_MEMORY;
	(*event)->id = __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
	(*event)->flags = flags;
	return SUCCESS;
}

API CUresult cuEventDestroy_v2(CUevent event)
{
	CUresult result = usable();

	if (result || !event)
		return result ? result : INVALID_HANDLE;
	if (event->recorded)
		result = tell(FORGET, event->id, 0);
	free(event);
	return result;
}

API CUresult cuEventRecord(CUevent event, CUstream stream)
{
	CUresult result = usable();

	if (result || !event)
		return result ? result : INVALID_HANDLE;
	if (is_captured(stream))
		return CAPTURE_UNSUPPORTED;
	result = tell(RECORD, event->id, stream_number(stream));
	if (!result)
		event->recorded = 1;
	return result;
}

API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	(void)flags;
	return cuEventRecord(event, stream);
}

static CUresult reached(CUevent event, int wait, uint64_t *ns)
{
	struct request request = {.operation = EVENT, .a = {event ? event->id : 0, wait}};
	struct reply reply;
	CUresult result = usable();

	if (result || !event)
		return result ? result : INVALID_HANDLE;
	if (!event->recorded)
		return ns ? INVALID_HANDLE : SUCCESS;
	result = ask(&request, NULL, &reply, NULL);
	if (!result && ns)
		*ns = reply.a[0];
	return result;
}

API CUresult cuEventQuery(CUevent event)
{
	return reached(event, ASK, NULL);
}

API CUresult cuEventSynchronize(CUevent event)
{
	return reached(event, UNTIL_DONE, NULL);
}

API CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
{
	uint64_t from, to;
	CUresult result = reached(start, ASK, &from);

	if (!result)
		result = reached(end, ASK, &to);
	if (!result)
		*ms = (float)((double)(int64_t)(to - from) / 1e6);
	return result;
}

API CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	return cuEventElapsedTime_v2(ms, start, end);
}

/* All streams share one queue, so earlier recorded events are always reached first. */
API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
	(void)flags;
	if (is_captured(stream))
		return CAPTURE_UNSUPPORTED;
	return event ? usable() : INVALID_HANDLE;
}
