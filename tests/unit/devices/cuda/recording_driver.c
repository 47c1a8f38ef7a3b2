/* A CUDA driver for tests: it records what is allocated, retained and pushed, fails where `set` requests it, and runs
 * the clock kernel in a thread, with its own clock. Other kernels do nothing. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK, INVALID_VALUE, OUT_OF_MEMORY, NO_DEVICE = 100, INVALID_DEVICE, INVALID_CONTEXT = 201, DESTROYED = 709 };
enum { DEVICE, REGISTERED };
#define MOST 4096
#define DEPTH 16
#define DEVICES 2

struct settings {
	int devices, version, major, minor, maps_host, init, sticky, refuse_register, capturing, silent, after_rounds, refuse_set,
		refuse_pointer, blocking;
	int64_t room, offset, drift_ppm, step, busy_ns;
} set;

struct counts {
	int device, registered, streams, modules, retained[DEVICES], freed_elsewhere, calls, launches, mode_left,
		retains;
	int64_t bytes;
} count;

static struct block {
	void *address;
	size_t size;
	int kind;
	void *context;
} blocks[MOST];
static char primary[DEVICES], own[DEVICES];
static __thread void *stack[DEPTH];
static __thread int depth, mode;
static int64_t origin;
static int running;

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* The device's clock at a host time. */
int64_t driver_clock(int64_t host)
{
	int64_t passed = host - origin;
	int64_t time = host + set.offset + passed / 1000000 * set.drift_ppm + passed % 1000000 * set.drift_ppm / 1000000;

	return set.step > 1 ? time / set.step * set.step : time;
}

void driver_reset(void)
{
	for (int i = 0; i < MOST; i++)
		if (blocks[i].address && blocks[i].kind == DEVICE)
			free(blocks[i].address);
	memset(blocks, 0, sizeof(blocks));
	memset(&count, 0, sizeof(count));
	set = (struct settings){.devices = 1, .version = 13000, .major = 9, .maps_host = 1, .room = 1LL << 40, .step = 32};
	depth = mode = 0;
	origin = now();
}

/* Make a context current as the user's code would, bypassing the recorded calls. */
void driver_enter(int device, int is_own)
{
	stack[depth++] = is_own ? &own[device] : &primary[device];
	if (!is_own)
		count.retained[device]++;
}

int driver_depth(void)
{
	return depth;
}

static void *current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

static int usable(void)
{
	count.calls++;
	if (!current())
		return INVALID_CONTEXT;
	return set.sticky;
}

int cuInit(unsigned flags)
{
	return flags ? INVALID_VALUE : set.init;
}

int cuDriverGetVersion(int *version)
{
	*version = set.version;
	return OK;
}

int cuDeviceGetCount(int *number)
{
	*number = set.devices;
	return OK;
}

int cuDeviceGet(int *device, int number)
{
	*device = number;
	return number < set.devices ? OK : INVALID_DEVICE;
}

int cuDeviceGetName(char *name, int room, int device)
{
	strncpy(name, device ? "Test GPU B" : "Test GPU A", room);
	return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = attribute == 16 ? 132 + device : attribute == 19 ? set.maps_host :
		 attribute == 75 ? set.major    : attribute == 76 ? set.minor : -1;
	return *value < 0 ? INVALID_VALUE : OK;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	*flags = 0;
	*active = count.retained[device] > 0;
	return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
	count.retained[device]++;
	count.retains++;
	*context = &primary[device];
	return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	if (!count.retained[device])
		return INVALID_CONTEXT;
	count.retained[device]--;
	return OK;
}

int cuCtxGetCurrent(void **context)
{
	*context = current();
	return OK;
}

int cuCtxGetDevice(int *device)
{
	char *context = current();

	if (!context)
		return INVALID_CONTEXT;
	*device = context == &primary[1] || context == &own[1];
	return OK;
}

int cuCtxPushCurrent_v2(void *context)
{
	if (set.sticky == DESTROYED)
		return DESTROYED;
	stack[depth++] = context;
	return OK;
}

int cuCtxPopCurrent_v2(void **context)
{
	if (!depth)
		return INVALID_CONTEXT;
	*context = stack[--depth];
	return OK;
}

int cuThreadExchangeStreamCaptureMode(int *wanted)
{
	int before = mode;

	mode = *wanted;
	*wanted = before;
	count.mode_left = mode;
	return OK;
}

static int add(void *address, size_t size, int kind)
{
	for (int i = 0; i < MOST; i++)
		if (!blocks[i].address) {
			blocks[i] = (struct block){address, size, kind, current()};
			count.bytes += size;
			return OK;
		}
	return OUT_OF_MEMORY;
}

static struct block *within(uint64_t address, size_t size)
{
	for (int i = 0; i < MOST; i++) {
		uint64_t start = (uint64_t)blocks[i].address;

		if (start && start <= address && address + size <= start + blocks[i].size)
			return &blocks[i];
	}
	return NULL;
}

static int make(void **address, size_t size, int kind)
{
	int result = usable();

	if (result)
		return result;
	if (count.bytes + (int64_t)size > set.room)
		return OUT_OF_MEMORY;
	*address = aligned_alloc(512, (size + 511) / 512 * 512);
	memset(*address, 0xa5, size);
	return add(*address, size, kind);
}

static int drop(void *address, int kind, int *counter)
{
	struct block *block = within((uint64_t)address, 0);
	int result = usable();

	if (result)
		return result;
	if (!block || block->address != address || block->kind != kind)
		return INVALID_VALUE;
	count.freed_elsewhere += block->context != current();
	count.bytes -= block->size;
	if (kind == DEVICE)
		free(address);
	block->address = NULL;
	--*counter;
	return OK;
}

int cuMemGetInfo_v2(size_t *available, size_t *total)
{
	*available = set.room - count.bytes;
	*total = set.room;
	return usable();
}

int cuMemAlloc_v2(uint64_t *address, size_t size)
{
	int result = make((void **)address, size, DEVICE);

	count.device += !result;
	return result;
}

int cuMemFree_v2(uint64_t address)
{
	return drop((void *)address, DEVICE, &count.device);
}

int cuMemHostRegister_v2(void *address, size_t size, unsigned flags)
{
	int result = usable();

	if (result || set.refuse_register)
		return result ? result : set.refuse_register;
	if (count.bytes + (int64_t)size > set.room)
		return OUT_OF_MEMORY;
	if (flags != 3 || (uint64_t)address % 4096 || size % 4096)
		return INVALID_VALUE;
	count.registered++;
	return add(address, size, REGISTERED);
}

int cuMemHostUnregister(void *address)
{
	return drop(address, REGISTERED, &count.registered);
}

int cuMemHostGetDevicePointer_v2(uint64_t *address, void *pointer, unsigned flags)
{
	struct block *block = within((uint64_t)pointer, 0);
	int result = usable();

	if (result)
		return result;
	if (flags || !block || block->kind == DEVICE || set.refuse_pointer)
		return INVALID_VALUE;
	*address = (uint64_t)pointer;
	return OK;
}

int cuMemsetD8Async(uint64_t address, unsigned char value, size_t size, void *stream)
{
	int result = usable();

	if (!result && !(within(address, size) && stream))
		result = INVALID_VALUE;
	if (!result)
		result = set.refuse_set;
	if (!result)
		memset((void *)address, value, size);
	return result;
}

int cuMemcpyHtoDAsync_v2(uint64_t address, const void *from, size_t size, void *stream)
{
	int result = usable();

	if (!result && !(within(address, size) && stream))
		result = INVALID_VALUE;
	if (!result)
		memcpy((void *)address, from, size);
	return result;
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t address, size_t size, void *stream)
{
	int result = usable();

	/* The target must be pinned: a copy to pageable memory would wait for running kernels. */
	if (!result && !(within(address, size) && within((uint64_t)to, size) && stream))
		result = INVALID_VALUE;
	if (!result)
		memcpy(to, (void *)address, size);
	return result;
}

int cuStreamCreate(void **stream, unsigned flags)
{
	int result = usable();

	if (result || flags != 1)
		return result ? result : INVALID_VALUE;
	*stream = malloc(1);
	count.streams++;
	return OK;
}

int cuStreamDestroy_v2(void *stream)
{
	int result = usable();

	if (!result) {
		free(stream);
		count.streams--;
	}
	return result;
}

int cuStreamIsCapturing(void *stream, int *status)
{
	*status = stream ? set.capturing : 0;
	return usable();
}

static void settle(void)
{
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE))
		usleep(50);
}

int cuStreamSynchronize(void *stream)
{
	if (stream)
		settle();
	return usable();
}

/* Waits for all of the context's kernels, including the user's, which take set.busy_ns. */
int cuCtxSynchronize(void)
{
	int64_t until = now() + set.busy_ns;

	while (now() < until)
		usleep(100);
	settle();
	return usable();
}

int cuModuleLoadData(void **module, const char *text)
{
	int result = usable();

	if (result || !strstr(text, ".entry accel_magic_clock("))
		return result ? result : INVALID_VALUE;
	*module = strdup(text);
	count.modules++;
	return OK;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
	*function = module;
	return strcmp(name, "accel_magic_clock") ? 500 : usable();
}

int cuModuleUnload(void *module)
{
	int result = usable();

	if (!result) {
		free(module);
		count.modules--;
	}
	return result;
}

struct question {
	volatile uint64_t *mailbox;
	uint32_t rounds;
	uint64_t limit;
};

static void *answer(void *given)
{
	struct question asked = *(struct question *)given;
	int64_t until = now() + asked.limit;

	free(given);
	usleep(20);
	for (uint32_t i = 0; i < asked.rounds && !set.silent; i++) {
		while (asked.mailbox[0] <= i && now() < until)
			;
		if (asked.mailbox[0] <= i || (set.after_rounds && (int)i >= set.after_rounds))
			break;
		asked.mailbox[2 + i] = driver_clock(now());
	}
	asked.mailbox[1] = set.step;
	__atomic_sub_fetch(&running, 1, __ATOMIC_RELEASE);
	return NULL;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		   unsigned shared, void *stream, void **parameters, void **extra)
{
	struct question *question = malloc(sizeof(*question));
	int result = usable();
	pthread_t thread;

	if (result || !function || !stream || extra || gx * gy * gz * bx * by * bz != 1 || shared)
		return result ? result : INVALID_VALUE;
	*question = (struct question){*(void **)parameters[0], *(uint32_t *)parameters[1], *(uint64_t *)parameters[2]};
	if (!within((uint64_t)question->mailbox, 8 * (2 + question->rounds)))
		return 700;
	count.launches++;
	__atomic_add_fetch(&running, 1, __ATOMIC_ACQUIRE);
	pthread_create(&thread, NULL, answer, question);
	if (set.blocking)
		pthread_join(thread, NULL);
	else
		pthread_detach(thread);
	return OK;
}

int cuGetErrorName(int code, const char **name)
{
	*name = code == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" :
		code == NO_DEVICE     ? "CUDA_ERROR_NO_DEVICE"     : NULL;
	return *name ? OK : INVALID_VALUE;
}

int cuGetErrorString(int code, const char **text)
{
	*text = code == OUT_OF_MEMORY ? "out of memory" : code == 700 ? "an illegal memory access was encountered" : NULL;
	return *text ? OK : INVALID_VALUE;
}
