/* Common declarations of the mock CUDA driver, which forwards calls to the simulated device.
 *
 * Names, numbers and layouts follow NVIDIA's public driver API (cuda.h); none of its files are needed.
 */
#ifndef ACCEL_MOCK_CUDA_H
#define ACCEL_MOCK_CUDA_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define API __attribute__((visibility("default")))

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct context *CUcontext;
typedef struct module *CUmodule, *CUlibrary;
typedef struct function *CUfunction, *CUkernel;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct graph *CUgraph, *CUgraphExec;
typedef struct pool *CUmemoryPool;
typedef struct array *CUarray;
typedef struct mipmapped *CUmipmappedArray;

enum result {
	SUCCESS = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	DEINITIALIZED = 4,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_IMAGE = 200,
	INVALID_CONTEXT = 201,
	FILE_NOT_FOUND = 301,
	INVALID_HANDLE = 400,
	ILLEGAL_STATE = 401,
	NOT_FOUND = 500,
	NOT_READY = 600,
	HOST_MEMORY_ALREADY_REGISTERED = 712,
	HOST_MEMORY_NOT_REGISTERED = 713,
	NOT_SUPPORTED = 801,
	CAPTURE_UNSUPPORTED = 900,
	INVALID_CLUSTER_SIZE = 912,
};

/* The messages; driver_server.py and driver_protocol.py are the other end. */
enum operation {
	HELLO = 1, /* process, client or 0, thread -> client, first address, bytes; data: `greeting`; with the memory's file */
	ALLOCATE,  /* bytes -> address */
	FREE,      /* address, stream or EVERYTHING */
	LOAD,      /* data: the image -> module; data: the error log */
	UNLOAD,    /* module */
	FUNCTION,  /* module; data: name -> function, static shared bytes, local bytes, threads; data: `parameter`s */
	NAMES,     /* module -> data: names of its kernels, each zero-terminated */
	VARIABLE,  /* module; data: name -> address, bytes */
	LAUNCH,    /* function, stream, x | y << 32, z | x << 32, y | z << 32, shared bytes; data: parameters */
	WAIT,      /* stream or EVERYTHING, 1 to wait or 0 to query */
	STREAM,    /* flags -> stream */
	CLOSE,     /* stream */
	RECORD,    /* event, stream */
	EVENT,     /* event, 1 to wait or 0 to query -> device time, ns */
	FORGET,    /* event */
	SHARE,     /* bytes; with a file -> address */
	RESET,
	IMAGE,	   /* data: `view` -> handle */
	DESTROY,   /* handle */
};

#define EVERYTHING (~0ull)

struct request {
	uint32_t operation, size; /* bytes of the data that follow */
	uint64_t a[6];
};

struct reply {
	int32_t result;
	uint32_t size, printed, said; /* bytes that follow: data, kernels' output, and error messages */
	uint64_t a[4];
};

struct greeting {
	char name[64];
	uint8_t uuid[16];
	int32_t attributes[][2];
};

struct parameter {
	uint32_t offset, size;
};

/* Texels in device memory: along x, y and z, and the layers. */
struct image {
	uint64_t address, sizes[4], strides[4];
};

/* A texture or surface. Formats, modes, filters and flags have the numbers of cuda.h. */
struct view {
	uint32_t sampled, levels, format, channels, layered, cube, linear;
	uint32_t modes[3], filter, flags, level_filter;
	float bias, least, most, border[4];
	struct image images[32];
};

/* CUDA_ARRAY3D_DESCRIPTOR */
struct array_description {
	size_t width, height, depth;
	int format;
	unsigned int channels, flags;
};

/* A CUDA array; `level` if it belongs to a mipmapped one. Pitch and slice are bytes. */
struct array {
	struct array_description is;
	uint64_t address;
	size_t texel, pitch, slice;
	int level;
};

struct context {
	unsigned int flags;
	int primary;
	uint64_t id;
};

struct function {
	struct function *next;
	struct module *module;
	uint64_t id;
	uint32_t shared, local, threads, dynamic, count;
	struct parameter *parameters;
	char name[];
};

struct stream {
	uint64_t id;
	struct graph *capture;
	unsigned int flags;
	int priority;
};

/* Memory that this process has on the device or has registered. */
enum kind { DEVICE, HOST, MANAGED, VARIABLE_KIND, REGISTERED, MOVED };

struct range {
	uint64_t address, size;
	uint8_t *host;
	enum kind kind;
	unsigned int flags;
	uint64_t id;
};

/* wire.c */
extern struct process {
	uint64_t client, base, size;
	uint8_t *map;
	struct greeting *greeting;
	uint32_t attributes;
} process;
CUresult connected(void);
CUresult ask(struct request *request, const void *data, struct reply *reply, void **received);
CUresult ask_with_file(struct request *request, int descriptor, struct reply *reply);
CUresult tell(enum operation operation, uint64_t first, uint64_t second);
void locally(const char *text);

/* context.c */
CUresult usable(void);
CUcontext current_context(void);
#ifndef ACCEL_MOCK_CUDA_NAMES /* procs.c declares only the names */
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuCtxPushCurrent_v2(CUcontext context);
CUresult cuCtxPopCurrent_v2(CUcontext *context);
#endif

/* ranges.c */
void add_range(struct range range);
int take_range(uint64_t address, enum kind kind, struct range *taken);
int find_range(uint64_t address, struct range *found);
uint8_t *reach(uint64_t address, size_t size);
void forget_ranges(void);

/* memory.c */
CUresult allocate_memory(CUdeviceptr *address, size_t size, enum kind kind, unsigned int flags);
CUresult free_memory(CUdeviceptr address, uint64_t stream);

/* streams.c */
uint64_t stream_number(CUstream stream);
CUresult wait_for(uint64_t stream);


/* copies.c */
CUresult copy(uint64_t to, uint64_t from, size_t size, CUstream stream);
CUresult fill(CUdeviceptr to, uint32_t value, size_t unit, size_t count, CUstream stream);

/* graphs.c */
int is_captured(CUstream stream);
CUresult capture_launch(CUstream stream, const struct request *request, const void *data);
CUresult capture_copy(CUstream stream, uint64_t to, uint64_t from, size_t size);
CUresult capture_fill(CUstream stream, uint64_t to, uint32_t value, size_t unit, size_t count);
CUresult capture_call(CUstream stream, void (*function)(void *), void *data);

#endif
