#define _GNU_SOURCE
#include "notebook.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api.h"
#include "launches.h"
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
		case NUMBERED:
			launches_numbered_at((uint64_t *)(uintptr_t)message.a);
			break;
		default:
			return message;
		}
	}
	talk_end();
	return (struct message){0};
}

static int introduce(void)
{
	char text[WIRE_TEXT] = "";
	struct message hello = {.kind = HELLO, .number = WIRE_VERSION}, answer;
	int placed = 0, descriptor;

	if (api_introduce(&hello, text, sizeof text) && talk_begin() && talk_tell(hello, text, -1)) {
		maps_begin();
		launches_numbered_at(NULL);
		answer = serve(&descriptor);
		placed = answer.kind == READY && maps_ring();
	}
	return api_introduced(placed) && placed && maps_keep();
}

/* Connect to the notebook; called once per process. */
static void seek(void)
{
	sought = 1;
	if (!getenv("ACCEL_MAGIC_NATIVE") || introduce())
		return;
	talk_end();
	maps_ring_at(NULL);
}

void notebook_connect(void)
{
	pthread_mutex_lock(&talking);
	if (!sought)
		seek();
	pthread_mutex_unlock(&talking);
}

void notebook_greet(void)
{
	pthread_mutex_lock(&talking);
	if (!sought && getenv("ACCEL_MAGIC_NATIVE")) {
		introduce();
		talk_end();
	}
	pthread_mutex_unlock(&talking);
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
		image.lanes = answer.b;
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
	if (api_reachable())
		return 1;
	atomic_fetch_add(&ring->elsewhere, 1);
	return 0;
}

struct image notebook_offer(const void *data, size_t size, struct message about, const char *text)
{
	struct image image = {0};
	int file;

	pthread_mutex_lock(&talking);
	if (!sought)
		seek();
	if (wants_images() && (file = copy_of(data, size)) >= 0) {
		image.module = ++modules;
		if (talk_tell((struct message){IMAGE, image.module, size, about.b, about.c}, text, file))
			image = image_answered(image.module);
		else
			talk_end();
		close(file);
	}
	pthread_mutex_unlock(&talking);
	return image;
}

struct image notebook_loaded(struct image tried, int error, const char *text)
{
	struct image next = {.module = tried.module};

	if (error)
		image_free(tried);
	pthread_mutex_lock(&talking);
	if (!talk_tell((struct message){LOADED, tried.module, (uint64_t)(int64_t)error, 0, 0}, text, -1))
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

void notebook_left(enum left reason, const char *kernel)
{
	pthread_mutex_lock(&talking);
	talk_tell((struct message){.kind = LEFT, .number = reason}, kernel, -1);
	pthread_mutex_unlock(&talking);
}

/* A forked child must not use its parent's connection, and connects anew. */
static void forget(void)
{
	pthread_mutex_init(&talking, NULL);
	talk_end();
	maps_begin();
	sought = 0;
}

__attribute__((constructor)) static void prepare(void)
{
	pthread_atfork(NULL, NULL, forget);
}
