#define _GNU_SOURCE
#include "notebook.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "maps.h"
#include "talk.h"

static pthread_mutex_t talking = PTHREAD_MUTEX_INITIALIZER;
static int sought; /* whether this process has tried to connect to the notebook */
static uint32_t modules, functions;

struct ring *notebook_ring(void)
{
	struct ring *ring = maps_ring();

	return ring && !atomic_load_explicit(&ring->closed, memory_order_relaxed) ? ring : NULL;
}

/* Execute the notebook's requests up to the first other message; returns that, kind 0 if there is no notebook. */
static struct message serve(int *descriptor)
{
	struct message message;

	while (talk_hear(&message, descriptor)) {
		switch (message.kind) {
		case RING:
			maps_ring_at(maps_take_file(*descriptor, message.a));
			break;
		case ALLOCATE:
		case SHARE:
			maps_place(message, *descriptor);
			break;
		case FREE:
			maps_take_back(message.a);
			break;
		default:
			return message;
		}
	}
	talk_end();
	return (struct message){0};
}

/* Requires that the context for the maps is current. */
static int introduce(Handle context)
{
	char executable[4096] = "";
	int device, devices, major = 0, minor = 0, version = 0, descriptor;
	struct message answer;

	if (driver.ctx_get_device(&device) || driver.device_attribute(&major, CAPABILITY_MAJOR, device) ||
	    driver.device_attribute(&minor, CAPABILITY_MINOR, device) || driver.device_count(&devices))
		return 0;
	driver.driver_version(&version);
	if (readlink("/proc/self/exe", executable, sizeof executable - 1) < 0)
		return 0;
	if (!talk_tell((struct message){HELLO, WIRE_VERSION, (uint64_t)(major * 10 + minor), (uint64_t)devices,
				   (uint64_t)version},
		  executable, -1))
		return 0;
	maps_begin(devices);
	answer = serve(&descriptor);
	return answer.kind == READY && maps_ring() && maps_keep(context);
}

/* Make a context current if there is none; returns 1 if it must be popped afterwards, -1 on failure. */
static int enter_context(Handle *context)
{
	int device;

	if (driver.ctx_get_current(context))
		return -1;
	if (*context)
		return 0;
	/* Libraries can be loaded without a context; the runtime uses the primary context of the first device. */
	if (driver.device_get(&device, 0) || driver.primary_retain(context, device))
		return -1;
	return driver.ctx_push(*context) ? -1 : 1;
}

/* Connect to the notebook; called once per process. */
static void seek(void)
{
	int relaxed = CAPTURE_RELAXED;
	int pushed = -1, found;
	Handle context, popped;

	sought = 1;
	if (!getenv("ACCEL_MAGIC_NATIVE") || !driver_find())
		return;
	if (driver.capture_mode)
		driver.capture_mode(&relaxed);
	pushed = enter_context(&context);
	found = pushed >= 0 && talk_begin() && introduce(context);
	if (pushed == 1)
		driver.ctx_pop(&popped);
	if (driver.capture_mode)
		driver.capture_mode(&relaxed);
	if (!found) {
		talk_end();
		maps_ring_at(NULL);
	}
}

/* Wait for the image to load. */
static struct image image_answered(uint32_t module)
{
	struct image image = {.module = module};
	int descriptor = -1;
	struct message answer = serve(&descriptor);

	if (answer.kind == REPLACED) {
		image.data = maps_take_file(descriptor, answer.a);
		image.size = answer.a;
	}
	return image;
}

static int copy_of(const void *data, size_t size)
{
	int file = memfd_create("accel_magic image", MFD_CLOEXEC);

	for (size_t done = 0; file >= 0 && done < size;) {
		ssize_t written = write(file, (const char *)data + done, size - done);

		if (written <= 0) {
			close(file);
			return -1;
		}
		done += (size_t)written;
	}
	return file;
}

static int wants_images(void)
{
	struct ring *ring = notebook_ring();

	if (!talk_is_open() || !ring)
		return 0;
	if (maps_reachable())
		return 1;
	atomic_fetch_add(&ring->elsewhere, 1);
	return 0;
}

struct image notebook_offer(const void *data, size_t size)
{
	struct image image = {0};
	int file;

	pthread_mutex_lock(&talking);
	if (!sought)
		seek();
	if (wants_images() && (file = copy_of(data, size)) >= 0) {
		image.module = ++modules;
		if (talk_tell((struct message){IMAGE, image.module, size, 0, 0}, NULL, file))
			image = image_answered(image.module);
		else
			talk_end();
		close(file);
	}
	pthread_mutex_unlock(&talking);
	return image;
}

struct image notebook_loaded(struct image tried, CUresult error)
{
	struct image next = {.module = tried.module};

	if (error)
		image_free(tried);
	pthread_mutex_lock(&talking);
	if (!talk_tell((struct message){LOADED, tried.module, (uint64_t)error, 0, 0}, NULL, -1))
		talk_end();
	else if (error)
		next = image_answered(tried.module);
	pthread_mutex_unlock(&talking);
	return next;
}

void image_free(struct image image)
{
	if (image.data)
		munmap(image.data, image.size);
}

uint32_t notebook_function(const char *name, uint32_t module)
{
	uint32_t number;

	pthread_mutex_lock(&talking);
	number = ++functions;
	if (!talk_tell((struct message){FUNCTION, number, module, 0, 0}, name, -1))
		number = 0;
	pthread_mutex_unlock(&talking);
	return number;
}

/* A forked child must not use its parent's connection, and connects anew. */
static void forget(void)
{
	pthread_mutex_init(&talking, NULL);
	talk_end();
	maps_begin(0);
	sought = 0;
}

__attribute__((constructor)) static void prepare(void)
{
	find_dlsym();
	pthread_atfork(NULL, NULL, forget);
}
