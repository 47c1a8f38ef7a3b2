/* Wrappers of launches, graph launches and stream captures. */
#define _GNU_SOURCE
#include <string.h>

#include "../common/launches.h"
#include "../common/maps.h"
#include "../common/notebook.h"
#include "modules.h"
#include "wrapped.h"

enum { LANES = 32 };

struct config {
	unsigned grid[3], block[3], shared;
	Handle stream;
	/* attributes follow */
};

static _Atomic int captures; /* whether the program records graphs: from then on, streams are asked whether they do */

/* Whether a launch into this stream is only recorded. */
static int is_captured(Handle stream)
{
	int status = 0;

	if (!atomic_load_explicit(&captures, memory_order_relaxed) || !driver.is_capturing)
		return 0;
	return !driver.is_capturing(stream, &status) && status == 1;
}

struct started {
	uint32_t function;
	int captured;
	uint64_t before;
};

static struct started starting(Handle *function, Handle stream)
{
	struct started started = {0};
	struct ring *ring = notebook_ring();
	Handle usable;

	if (ring)
		started.function = modules_number(*function);
	usable = modules_usable_kernel(*function);
	if (ring && usable != *function)
		atomic_fetch_add(&ring->originals, 1);
	*function = usable;
	if (!ring)
		return started;
	started.captured = is_captured(stream);
	started.before = now_ns();
	return started;
}

static CUresult done(CUresult error, const struct started *started, const struct shape *shape)
{
	struct ring *ring;

	if (error || !started->before || !(ring = notebook_ring()))
		return error;
	if (started->captured)
		atomic_fetch_add(&ring->captured, 1);
	else
		launches_report(started->function, shape, started->before, 0);
	return error;
}

#define LAUNCHING(name)                                                                                               \
	SHOWN CUresult name(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,          \
			    unsigned bz, unsigned shared, Handle stream, void **arguments, void **more)                \
	{                                                                                                              \
		struct shape shape = {{gx, gy, gz}, {bx, by, bz}, shared, LANES, stream};                                     \
		struct started started = starting(&function, stream);                                                  \
                                                                                                                       \
		return done(REAL(name)(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, more), &started,   \
			    &shape);                                                                                   \
	}
#define LAUNCHING_TOGETHER(name)                                                                                      \
	SHOWN CUresult name(Handle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,          \
			    unsigned bz, unsigned shared, Handle stream, void **arguments)                             \
	{                                                                                                              \
		struct shape shape = {{gx, gy, gz}, {bx, by, bz}, shared, LANES, stream};                                     \
		struct started started = starting(&function, stream);                                                  \
                                                                                                                       \
		return done(REAL(name)(function, gx, gy, gz, bx, by, bz, shared, stream, arguments), &started, &shape); \
	}
#define LAUNCHING_CONFIGURED(name)                                                                                    \
	SHOWN CUresult name(const struct config *config, Handle function, void **arguments, void **more)               \
	{                                                                                                              \
		struct shape shape;                                                                                    \
		struct started started;                                                                                \
                                                                                                                       \
		if (!config)                                                                                           \
			return REAL(name)(config, function, arguments, more);                                          \
		memcpy(shape.grid, config->grid, sizeof shape.grid);                                                   \
		memcpy(shape.block, config->block, sizeof shape.block);                                                \
		shape.lanes = LANES;                                                                                   \
		shape.shared = config->shared;                                                                         \
		shape.stream = config->stream;                                                                         \
		started = starting(&function, config->stream);                                                         \
		return done(REAL(name)(config, function, arguments, more), &started, &shape);                          \
	}
#define LAUNCHING_GRAPH(name)                                                     \
	SHOWN CUresult name(Handle graph, Handle stream)                           \
	{                                                                          \
		struct ring *ring = notebook_ring();                               \
		CUresult error = REAL(name)(graph, stream);                        \
                                                                                   \
		if (!error && ring)                                                \
			atomic_fetch_add(&ring->graphs, 1);                        \
		return error;                                                      \
	}

LAUNCHING(cuLaunchKernel)
LAUNCHING(cuLaunchKernel_ptsz)
LAUNCHING_TOGETHER(cuLaunchCooperativeKernel)
LAUNCHING_TOGETHER(cuLaunchCooperativeKernel_ptsz)
LAUNCHING_CONFIGURED(cuLaunchKernelEx)
LAUNCHING_CONFIGURED(cuLaunchKernelEx_ptsz)
LAUNCHING_GRAPH(cuGraphLaunch)
LAUNCHING_GRAPH(cuGraphLaunch_ptsz)

#define CAPTURING(name)                                    \
	SHOWN CUresult name(Handle stream, int mode)        \
	{                                                   \
		atomic_store(&captures, 1);                 \
		return REAL(name)(stream, mode);            \
	}
#define CAPTURING_TO_GRAPH(name)                                                                                      \
	SHOWN CUresult name(Handle stream, Handle graph, const void *after, const void *edges, size_t count, int mode) \
	{                                                                                                              \
		atomic_store(&captures, 1);                                                                            \
		return REAL(name)(stream, graph, after, edges, count, mode);                                           \
	}

CAPTURING(cuStreamBeginCapture)
CAPTURING(cuStreamBeginCapture_ptsz)
CAPTURING(cuStreamBeginCapture_v2)
CAPTURING(cuStreamBeginCapture_v2_ptsz)
CAPTURING_TO_GRAPH(cuStreamBeginCaptureToGraph)
CAPTURING_TO_GRAPH(cuStreamBeginCaptureToGraph_ptsz)
